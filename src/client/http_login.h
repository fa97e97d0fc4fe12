/* How a client shows a server what it may do, and checks that it is the right server: a bearer
 * token, and the certificates that it trusts.
 *
 * Life: opened with the options that a user gave, after the address was read; borrowed by the
 * address (http_address.h); closed after every client of it. Implemented in http_login.c. */
#ifndef TT_CLIENT_HTTP_LOGIN_H
#define TT_CLIENT_HTTP_LOGIN_H

#include "client/http_address.h"

enum { TT_HTTP_LOGIN_BYTES = 560 };

struct tt_http_login_options {
    const char *token_file; /* its first line; NULL: the environment's TUTTI_TOKEN, if set */
    const char *tls_ca;     /* PEM; NULL: the certificates of the system */
};

struct tt_http_login {
    char header[TT_HTTP_LOGIN_BYTES]; /* Authorization, with its end of line; "": no token */
    struct tt_tls_context *tls;       /* NULL: without TLS */
};

/* Sets `address->login` to `self`. INVALID, NOT_FOUND, IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_http_login_open(struct tt_http_login *self,
                                             const struct tt_http_login_options *options,
                                             struct tt_http_address *address, struct tt_error *why);
/* Also after a failed open. */
void tt_http_login_close(struct tt_http_login *self);

#endif
