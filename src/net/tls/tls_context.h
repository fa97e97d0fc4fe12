/* What TLS connections share: certificates, keys, and which protocols are spoken (OpenSSL 3).
 *
 * Life: a server's context is made from its files and published; each connection keeps the context
 * that was in force when it began. When the files change, a new context is published
 * (tt_tls_server_reload()). A client has one context as long as it lives.
 *
 * TLS 1.2 and 1.3; no renegotiation, no compression; session tickets, but no memory of sessions.
 * Implemented in tls_context.c. */
#ifndef TT_NET_TLS_TLS_CONTEXT_H
#define TT_NET_TLS_TLS_CONTEXT_H

#include "base/threads/published.h"

#include <openssl/types.h>
#include <stdbool.h>

struct tt_log;

struct tt_tls_context {
    struct tt_shared shared;
    SSL_CTX *openssl;
};

struct tt_tls_files {
    const char *certificate; /* PEM: the server's certificate, then those that sign it */
    const char *key;         /* PEM, without a password */
    const char *client_ca;   /* PEM; NULL: clients need no certificate */
};

/* A server's contexts. */
struct tt_tls_server {
    struct tt_tls_files files; /* borrowed until fini */
    struct tt_published context;
    struct tt_log *log;
};

/* Logs a warning for a key that every user may read, and for a certificate that has expired.
 * NOT_FOUND, INVALID (with the file and what would be right), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_tls_server_init(struct tt_tls_server *self,
                                             const struct tt_tls_files *files, struct tt_log *log,
                                             struct tt_error *why);
/* No view reads any more. */
void tt_tls_server_fini(struct tt_tls_server *self);
/* Reads the files again; if they are broken, the former ones stay. Logs which. Any thread, one at
 * a time. */
void tt_tls_server_reload(struct tt_tls_server *self);
/* The context in force; borrowed until the view's next read. */
const struct tt_tls_context *tt_tls_server_context(struct tt_tls_server *self,
                                                   struct tt_published_view *view);

/* A client that trusts the certificates in `ca_path`; NULL: those of the system. One reference.
 * INVALID, NOT_FOUND, NO_MEMORY. */
TT_MUST_CHECK enum tt_err
tt_tls_client_new(const char *ca_path, struct tt_tls_context **out_context, struct tt_error *why);
/* One side of a connection on which both show a certificate: that of `files`, signed by one of
 * `files->client_ca`, which the other side's must be, too. One reference. Errors: as of a server.
 */
TT_MUST_CHECK enum tt_err tt_tls_peer_new(const struct tt_tls_files *files, bool is_client,
                                          struct tt_tls_context **out_context,
                                          struct tt_error *why);
/* NULL-safe. */
void tt_tls_context_unref(struct tt_tls_context *self);

#endif
