#include "client/http_login.h"

#include "base/text.h"
#include "net/tls/tls_context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_BYTES = 512 };

/* `from` is for messages. */
static enum tt_err set_token(struct tt_http_login *self, const char *from, const char *token,
                             struct tt_error *why) {
    size_t length = strcspn(token, "\r\n");
    for (size_t i = 0; i < length; i++)
        if (token[i] <= ' ' || token[i] > '~')
            length = 0;
    if (length == 0 || length >= TOKEN_BYTES)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s: a token is one line of 1 to %d visible characters, as `tutti token` "
                       "prints it first",
                       from, TOKEN_BYTES - 1);
    snprintf(self->header, sizeof(self->header), "Authorization: Bearer %.*s\r\n", (int)length,
             token);
    return TT_OK;
}

static enum tt_err read_token(struct tt_http_login *self, const char *path, struct tt_error *why) {
    struct tt_text text;
    tt_text_init(&text);
    enum tt_err err = tt_text_read_file(path, 1 << 16, &text, why);
    if (!err)
        err = set_token(self, path, tt_text_string(&text), why);
    tt_text_fini(&text);
    return err;
}

enum tt_err tt_http_login_open(struct tt_http_login *self,
                               const struct tt_http_login_options *options,
                               struct tt_http_address *address, struct tt_error *why) {
    const char *token = getenv("TUTTI_TOKEN");
    enum tt_err err = TT_OK;
    *self = (struct tt_http_login){.tls = NULL};
    if (options->token_file)
        err = read_token(self, options->token_file, why);
    else if (token && *token)
        err = set_token(self, "TUTTI_TOKEN", token, why);
    if (!err && options->tls_ca && !address->is_tls)
        err = tt_fail(TT_ERR_INVALID, why, "--tls-ca needs a URL that begins with https://");
    if (!err && address->is_tls)
        err = tt_tls_client_new(options->tls_ca, &self->tls, why);
    address->login = self;
    return err;
}

void tt_http_login_close(struct tt_http_login *self) {
    tt_tls_context_unref(self->tls);
    *self = (struct tt_http_login){.tls = NULL};
}
