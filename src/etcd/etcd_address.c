#include "etcd/etcd_address.h"

#include "client/http_fetch.h"
#include "client/http_login.h"
#include "etcd/etcd_message.h"
#include "net/tls/tls_context.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char plain[] = "etcd://", over_tls[] = "etcds://";

static bool is_plain(const char *spec) { return strncmp(spec, plain, sizeof(plain) - 1) == 0; }

static bool is_over_tls(const char *spec) {
    return strncmp(spec, over_tls, sizeof(over_tls) - 1) == 0;
}

bool tt_etcd_address_is(const char *spec) { return is_plain(spec) || is_over_tls(spec); }

static bool is_name(const char *text) {
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("-_.", text[i]))
            return false;
    return length > 0 && length < TT_ETCD_NAME_BYTES;
}

static enum tt_err parse_servers(const char *spec, const char *at, const char *slash,
                                 struct tt_etcd_address *out_address, struct tt_error *why) {
    enum { ETCD_TCP_PORT = 2379 };
    while (at < slash) {
        size_t length = strcspn(at, ",/");
        char url[300];
        if (out_address->server_count == TT_ETCD_MAX_SERVERS || length >= sizeof(url) - 8)
            return tt_fail(TT_ERR_INVALID, why, "'%.100s' has more than %d servers, or a long name",
                           spec, TT_ETCD_MAX_SERVERS);
        snprintf(url, sizeof(url), "%s%.*s", is_over_tls(spec) ? "https://" : "", (int)length, at);
        enum tt_err err = tt_http_address_parse(
            url, ETCD_TCP_PORT, &out_address->servers[out_address->server_count], why);
        if (err)
            return err;
        out_address->server_count++;
        at += length + 1;
    }
    return TT_OK;
}

enum tt_err tt_etcd_tls_open(const struct tt_etcd_tls_files *files, struct tt_tls_context **out_tls,
                             struct tt_error *why) {
    const struct tt_tls_files own = {
        .certificate = files->certificate, .key = files->key, .client_ca = files->ca};
    return files->certificate ? tt_tls_peer_new(&own, true, out_tls, why)
                              : tt_tls_client_new(files->ca, out_tls, why);
}

/* No token goes to etcd, whatever the environment has: the login is TLS only. */
static enum tt_err open_login(const struct tt_etcd_tls_files *files, struct tt_etcd_address *self,
                              struct tt_error *why) {
    self->login = calloc(1, sizeof(*self->login));
    if (!self->login)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t i = 0; i < self->server_count; i++)
        self->servers[i].login = self->login;
    self->files = *files;
    return tt_etcd_tls_open(files, &self->login->tls, why);
}

static enum tt_err check_files(const char *spec, const struct tt_etcd_tls_files *files,
                               struct tt_error *why) {
    if (!is_over_tls(spec) && (files->ca || files->certificate || files->key))
        return tt_fail(TT_ERR_INVALID, why,
                       "--etcd-ca, --etcd-cert and --etcd-key need etcds://HOST:PORT/NAME");
    if (!files->certificate != !files->key || (files->certificate && !files->ca))
        return tt_fail(TT_ERR_INVALID, why,
                       "--etcd-cert and --etcd-key go together, and with --etcd-ca");
    return TT_OK;
}

enum tt_err tt_etcd_address_parse(const char *spec, const struct tt_etcd_tls_files *files,
                                  struct tt_etcd_address *out_address, struct tt_error *why) {
    static const struct tt_etcd_tls_files none = {.ca = NULL};
    const char *at = spec + (is_over_tls(spec) ? sizeof(over_tls) : sizeof(plain)) - 1;
    const char *slash = tt_etcd_address_is(spec) ? strchr(at, '/') : NULL;
    *out_address = (struct tt_etcd_address){.server_count = 0};
    if (!slash || slash == at || !is_name(slash + 1))
        return tt_fail(TT_ERR_INVALID, why,
                       "'%.100s' is not etcd://HOST:PORT[,HOST:PORT...]/NAME; a name has letters, "
                       "digits, '-', '_' and '.'",
                       spec);
    snprintf(out_address->name, sizeof(out_address->name), "%s", slash + 1);
    enum tt_err err = check_files(spec, files ? files : &none, why);
    if (!err)
        err = parse_servers(spec, at, slash, out_address, why);
    if (!err && is_over_tls(spec))
        err = open_login(files ? files : &none, out_address, why);
    if (err)
        tt_etcd_address_fini(out_address);
    return err;
}

void tt_etcd_address_fini(struct tt_etcd_address *self) {
    if (self->login)
        tt_tls_context_unref(self->login->tls);
    free(self->login);
    *self = (struct tt_etcd_address){.server_count = 0};
}

struct taken {
    struct tt_text *nodes, *plan;
};

static void take_entry(void *context, const struct tt_etcd_entry *entry) {
    struct taken *self = context;
    if (entry->key == TT_ETCD_NODES)
        tt_text_puts(self->nodes, entry->value);
    else if (entry->key == TT_ETCD_PLACEMENT)
        tt_text_puts(self->plan, entry->value);
}

enum tt_err tt_etcd_read_nodes(const struct tt_etcd_address *address, int64_t give_up_ns,
                               struct tt_text *out_nodes, struct tt_text *out_plan,
                               struct tt_error *why) {
    struct taken taken = {.nodes = out_nodes, .plan = out_plan};
    struct tt_text request, body;
    tt_text_init(&request);
    tt_etcd_write_list(address->name, &request);
    enum tt_err err = TT_ERR_UNAVAILABLE;
    for (int32_t i = 0; err && i < address->server_count; i++)
        err = tt_http_fetch(&address->servers[i], "/v3/kv/range", tt_text_string(&request),
                            give_up_ns, &body, why);
    tt_text_fini(&request);
    if (err)
        return err;
    int64_t revision;
    tt_text_clear(out_nodes);
    tt_text_clear(out_plan);
    err = tt_etcd_read_list(address->name, tt_text_string(&body), body.length, take_entry, &taken,
                            &revision, why);
    tt_text_fini(&body);
    if (!err && out_nodes->length == 0)
        err = tt_fail(TT_ERR_NOT_FOUND, why,
                      "etcd has no cluster '%s': its description belongs at the key "
                      "tutti/%s/nodes",
                      address->name, address->name);
    return err;
}
