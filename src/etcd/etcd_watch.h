/* The keys of a cluster as they change: a list of all, and then a stream of changes.
 *
 * One call is under way at a time. The stream's answer never ends, so its lines are read as they
 * come. It is begun anew, with a list, when it ends or has become long, and RETRY later when a
 * server does not answer. A stream whose first line does not come, or that becomes long at once,
 * costs no more than that. A member that is missing in a later list is reported as gone, if it is
 * one of those whose names fit into MAX_MEMBERS_BYTES.
 *
 * One thread, the service's. Implemented in etcd_watch.c. */
#ifndef TT_ETCD_ETCD_WATCH_H
#define TT_ETCD_ETCD_WATCH_H

#include "client/http_client.h"
#include "etcd/etcd_address.h"
#include "etcd/etcd_message.h"

enum tt_etcd_watch_state { TT_ETCD_WATCH_IDLE, TT_ETCD_WATCH_LISTS, TT_ETCD_WATCH_STREAMS };

struct tt_etcd_watch {
    const struct tt_etcd_address *address;
    struct tt_http_client *client; /* NULL: none is open */
    int32_t server;                /* that the client talks to */
    enum tt_etcd_watch_state state;
    struct tt_http_call call;
    struct tt_text request;
    size_t read_bytes; /* of the stream */
    int64_t began_at, retry_at, revision;
    struct tt_text members, listed; /* names, each with its NUL: known; of the present list */
    bool has_failed;                /* since the last line of a stream was read, by `why` */
    struct tt_error why;
    tt_etcd_entry_fn *each;
    void *context;
};

/* `each` is called with what is there, and with what changes. */
void tt_etcd_watch_init(struct tt_etcd_watch *self, const struct tt_etcd_address *address,
                        tt_etcd_entry_fn *each, void *context);
void tt_etcd_watch_fini(struct tt_etcd_watch *self);
/* Ends its connection; the next _poll goes on where the stream was, over a new one. */
void tt_etcd_watch_renew(struct tt_etcd_watch *self);
/* Does what can be done without waiting. */
void tt_etcd_watch_poll(struct tt_etcd_watch *self, int64_t now);

#endif
