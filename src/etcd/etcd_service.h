/* etcd as the coordination service of a cluster (cluster/coordination.h).
 *
 * A thread of its own talks to etcd, so that nothing of it delays a node: requests go into a queue,
 * and what etcd says comes back through another one, after `wake`. The thread lists the cluster's
 * keys once, and then watches them by a stream. If a server does not answer, it goes on with the
 * next one. What is not answered is reported as an error; the caller tries again. Certificates are
 * read again when their files change (etcd/etcd_login.h).
 *
 * Life: _open -> requests -> _close, which ends what is under way.
 *
 * The functions of the coordination are for one thread. Implemented in etcd_service.c (queues,
 * requests) and etcd_watch.c (the list and the stream). */
#ifndef TT_ETCD_ETCD_SERVICE_H
#define TT_ETCD_ETCD_SERVICE_H

#include "cluster/coordination.h"
#include "etcd/etcd_address.h"

struct tt_etcd_service;
struct tt_log;

struct tt_etcd_service_options {
    const struct tt_etcd_address *address; /* copied; its login is the service's until _close */
    void (*wake)(void *context);           /* something came; on the service's thread */
    void *context;
    struct tt_log *log; /* NULL: nothing is logged */
};

/* Errors: NO_MEMORY, IO. etcd need not answer. */
TT_MUST_CHECK enum tt_err tt_etcd_service_open(const struct tt_etcd_service_options *options,
                                               struct tt_etcd_service **out_service,
                                               struct tt_error *why);
/* What was sent last may still go out, for a fifth of a second. NULL-safe. */
void tt_etcd_service_close(struct tt_etcd_service *take_service);
/* Borrows the service. */
struct tt_coordination tt_etcd_service_coordination(struct tt_etcd_service *self);

#endif
