/* "etcd://HOST:PORT[,HOST:PORT...]/NAME": the servers of an etcd, and the name of a cluster in it.
 *
 * The names of hosts are resolved once. With "etcds://" requests go over TLS, and each server's
 * certificate must be for its host; else etcd belongs into a network of its own, as the nodes do.
 *
 * Life: _parse -> requests -> _fini. Copies borrow the TLS of the original. Implemented in
 * etcd_address.c. */
#ifndef TT_ETCD_ETCD_ADDRESS_H
#define TT_ETCD_ETCD_ADDRESS_H

#include "base/text.h"
#include "client/http_address.h"

enum { TT_ETCD_MAX_SERVERS = 8, TT_ETCD_NAME_BYTES = 64 };

struct tt_http_login;

/* PEM; NULL: none. Without `ca` the certificates of the system are trusted. */
struct tt_etcd_tls_files {
    const char *ca, *certificate, *key;
};

struct tt_etcd_address {
    struct tt_http_address servers[TT_ETCD_MAX_SERVERS];
    int32_t server_count;
    char name[TT_ETCD_NAME_BYTES];
    struct tt_http_login *login;    /* what the servers share; NULL: without TLS */
    struct tt_etcd_tls_files files; /* that it was made of; borrowed */
};

struct tt_tls_context;

/* What clients of an etcd over TLS begin with. One reference. Errors: net/tls/tls_context.h. */
TT_MUST_CHECK enum tt_err tt_etcd_tls_open(const struct tt_etcd_tls_files *files,
                                           struct tt_tls_context **out_tls, struct tt_error *why);
/* True: it begins as the address of an etcd. */
bool tt_etcd_address_is(const char *spec);
/* Errors: INVALID: another form, an unknown host, or files that do not go together; those of the
 * files (net/tls/tls_context.h). */
TT_MUST_CHECK enum tt_err tt_etcd_address_parse(const char *spec,
                                                const struct tt_etcd_tls_files *files,
                                                struct tt_etcd_address *out_address,
                                                struct tt_error *why);
void tt_etcd_address_fini(struct tt_etcd_address *self); /* also of a zero-initialized one */
/* Reads the description of the cluster, and its latest plan ("": there is none), from the first
 * server that answers. Blocks for `give_up_ns`
 * per server. Errors: UNAVAILABLE, TIMEOUT; NOT_FOUND: there is none; INVALID. */
TT_MUST_CHECK enum tt_err tt_etcd_read_nodes(const struct tt_etcd_address *address,
                                             int64_t give_up_ns, struct tt_text *out_nodes,
                                             struct tt_text *out_plan, struct tt_error *why);

#endif
