/* A visit to a node of a cluster: one line to it, one text back, for `tutti cluster` and primaries.
 *
 * Lines: those about models (fleet/model_visits.h), "status", "drain", "drain EPOCH" (refused by a
 * node that obeys a later one), "promote", "placement ..." (fleet/placement_service.h), "scale ..."
 * (fleet/scaling_service.h). The answer is the node's state, the placement or the scaling as a JSON
 * object, or "error: " and a sentence. Blocks up to the timeout; time in which this process stood
 * still does not count. Implemented in visit.c. */
#ifndef TT_FLEET_VISIT_H
#define TT_FLEET_VISIT_H

#include "base/text.h"
#include "fleet/cluster_file.h"
#include "fleet/cluster_tls.h"
#include "fleet/handshake.h"

struct tt_visit {
    const struct tt_cluster_file *file;
    uint16_t number; /* of the node */
    const struct tt_cluster_key *key;
    const struct tt_cluster_tls *tls;
    struct tt_release release; /* of this program */
    int64_t timeout_ns;        /* of all that it waits */
};

/* The answer is appended. Errors: UNAVAILABLE: no process is there, or it refused; TIMEOUT: it does
 * not answer; INVALID: it is no node, or the host has no address; IO. */
TT_MUST_CHECK enum tt_err tt_visit(const struct tt_visit *visit, const char *line,
                                   struct tt_text *out_answer, struct tt_error *why);

#endif
