/* What describes a cluster: "static:FILE", or "etcd://HOST:PORT[,HOST:PORT...]/NAME", where etcd
 * has the lines of such a file; "etcds://..." is that over TLS. Implemented in cluster_spec.c. */
#ifndef TT_FLEET_CLUSTER_SPEC_H
#define TT_FLEET_CLUSTER_SPEC_H

#include "etcd/etcd_address.h"
#include "fleet/cluster_file.h"
#include "fleet/handshake.h"

/* Reads the description, the key and the node's place in it. For checks before models are loaded.
 * Blocks for seconds if etcd has the description and does not answer. Errors: INVALID, NOT_FOUND,
 * IO, NO_MEMORY; UNAVAILABLE, TIMEOUT: etcd. */
TT_MUST_CHECK enum tt_err tt_fleet_describe(const char *cluster,
                                            const struct tt_etcd_tls_files *etcd, const char *node,
                                            const char *key, struct tt_cluster_file *out_file,
                                            struct tt_cluster_key *out_key, uint16_t *out_number,
                                            struct tt_error *why);

#endif
