/* The certificates of a node, read again when their files change: an operator replaces them without
 * a restart. Connections that stand keep those with which they began.
 *
 * Life: _init reads the files and watches them (net/access/watched_files.h) -> _get for each
 * connection -> _fini. Files that are broken are logged, and the former ones stay in force.
 *
 * Each thread that reads has a view of its own. Implemented in live_tls.c. */
#ifndef TT_FLEET_LIVE_TLS_H
#define TT_FLEET_LIVE_TLS_H

#include "base/threads/published.h"
#include "fleet/cluster_tls.h"
#include "net/access/watched_files.h"

struct tt_log;

struct tt_live_tls {
    struct tt_cluster_tls_files files; /* borrowed until fini */
    struct tt_log *log;
    struct tt_published both;
    struct tt_watched_files watched;
    bool is_on;
};

/* Without files: no TLS. Errors: those of tt_cluster_tls_init(); IO. */
TT_MUST_CHECK enum tt_err tt_live_tls_init(struct tt_live_tls *self,
                                           const struct tt_cluster_tls_files *files,
                                           struct tt_log *log, struct tt_error *why);
/* No view reads any more. Also of a zero-initialized one. */
void tt_live_tls_fini(struct tt_live_tls *self);
/* What is in force; borrowed until the view's next read, or its end (tt_published_view_fini()). */
const struct tt_cluster_tls *tt_live_tls_get(struct tt_live_tls *self,
                                             struct tt_published_view *view);

#endif
