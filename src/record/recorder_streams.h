/* What a recording has of one domain: its own stream and, if threads schedule it, one for each
 * party (multicore/turn_log.h).
 *
 * Life: _add before the mechanism's first event, and before its threads start; _leave when the
 * mechanism has no events any more. The thread of the mechanism. Implemented in recorder_streams.c.
 */
#ifndef TT_RECORD_RECORDER_STREAMS_H
#define TT_RECORD_RECORDER_STREAMS_H

#include "record/recorder.h"

struct tt_recorder_streams {
    struct tt_recorder_stream *domain;   /* NULL: it is not recorded */
    struct tt_recorder_stream **parties; /* [party_count] */
    int32_t party_count;
};

/* If domain->scheduler_threads > 0, the mechanism's policy has threads, and writes turn logs from
 * now on. After an error *out_streams has what was added: leave it. Errors: as tt_recorder_add().
 */
TT_MUST_CHECK enum tt_err tt_recorder_streams_add(struct tt_recorder *recorder,
                                                  struct tt_mechanism *mechanism,
                                                  const struct tt_record_domain *domain,
                                                  struct tt_recorder_streams *out_streams,
                                                  struct tt_error *why);
void tt_recorder_streams_leave(struct tt_recorder_streams *self); /* also on zeroed memory */

#endif
