/* What is said to etcd, and what it says: JSON over HTTP (the gRPC gateway of etcd 3.4 and later).
 *
 * Keys of cluster NAME: "tutti/NAME/nodes", its description; "tutti/NAME/members/NODE", under the
 * node's lease; "tutti/NAME/primary", the epoch as a decimal number; "tutti/NAME/placement", the
 * latest plan, whose first line is an epoch. Keys and values travel in
 * base64, 64-bit numbers as strings.
 *
 * The reader trusts nothing: what does not fit is INVALID, with a sentence. Unknown fields are
 * ignored. No socket, no clock. Implemented in etcd_message.c. */
#ifndef TT_ETCD_ETCD_MESSAGE_H
#define TT_ETCD_ETCD_MESSAGE_H

#include "base/text.h"
#include "cluster/coordination.h"

/* "/v3/lease/grant" and the like. Static storage. */
const char *tt_etcd_path(enum tt_coordination_verb verb);
/* Appends the body of a request of cluster `name`. */
void tt_etcd_write(const char *name, const struct tt_coordination_request *request,
                   struct tt_text *out_body);
/* Reads the body of an answer with this HTTP status into out_answer, but for its number. Errors:
 * INVALID; NOT_FOUND: the lease; UNAVAILABLE: etcd refuses now. */
TT_MUST_CHECK enum tt_err tt_etcd_read(enum tt_coordination_verb verb, int32_t status,
                                       const char *body, size_t length,
                                       struct tt_coordination_answer *out_answer,
                                       struct tt_error *why);

/* ---- what lies under a cluster's keys ---- */

enum tt_etcd_key {
    TT_ETCD_OTHER,
    TT_ETCD_NODES,
    TT_ETCD_MEMBER,
    TT_ETCD_PRIMARY,
    TT_ETCD_PLACEMENT
};

/* A key that is there, or was deleted. Strings are borrowed for the call. */
struct tt_etcd_entry {
    enum tt_etcd_key key;
    bool is_there;
    const char *node, *value; /* node: of MEMBER */
    uint64_t epoch;           /* of PRIMARY */
    int64_t revision;         /* of this entry's latest change */
};
typedef void tt_etcd_entry_fn(void *context, const struct tt_etcd_entry *entry);

/* Appends a request for all keys of the cluster (path /v3/kv/range), or for their changes from
 * `revision` on (path /v3/watch). */
void tt_etcd_write_list(const char *name, struct tt_text *out_body);
void tt_etcd_write_watch(const char *name, int64_t revision, struct tt_text *out_body);
/* Calls `each` for the keys. *out_revision: of the whole answer. Errors: INVALID, UNAVAILABLE. */
TT_MUST_CHECK enum tt_err tt_etcd_read_list(const char *name, const char *body, size_t length,
                                            tt_etcd_entry_fn *each, void *context,
                                            int64_t *out_revision, struct tt_error *why);
/* The same for one line of the answer to a watch. Any error ends the watch. */
TT_MUST_CHECK enum tt_err tt_etcd_read_change(const char *name, const char *line, size_t length,
                                              tt_etcd_entry_fn *each, void *context,
                                              int64_t *out_revision, struct tt_error *why);

#endif
