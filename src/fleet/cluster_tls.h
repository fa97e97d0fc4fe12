/* TLS between the nodes of a cluster: both sides of a connection show a certificate.
 *
 * A node has one certificate for both directions, and trusts those that sign the certificates of
 * the cluster. The side that dials expects the host of the node's line in the description. The
 * shared key (fleet/handshake.h) is checked within TLS as it is without. Datagrams are signed, not
 * encrypted; they have no content but times.
 *
 * Implemented in cluster_tls.c. */
#ifndef TT_FLEET_CLUSTER_TLS_H
#define TT_FLEET_CLUSTER_TLS_H

#include "etcd/etcd_address.h"
#include "net/tls/tls_context.h"

struct tt_cluster_tls_files {
    const char *certificate, *key, *ca; /* PEM; all or none: NULL */
    struct tt_etcd_tls_files etcd;      /* to etcd, not between nodes */
};

struct tt_cluster_tls {
    struct tt_tls_context *dialer, *listener; /* NULL: no TLS */
};

/* Without files: no TLS. Errors: INVALID, NOT_FOUND, IO, NO_MEMORY, with the file. */
TT_MUST_CHECK enum tt_err tt_cluster_tls_init(struct tt_cluster_tls *self,
                                              const struct tt_cluster_tls_files *files,
                                              struct tt_error *why);
void tt_cluster_tls_fini(struct tt_cluster_tls *self); /* also of a zero-initialized one */

#endif
