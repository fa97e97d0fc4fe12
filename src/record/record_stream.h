/* One domain's events as bytes: an observer that writes each event in the form of
 * record/recording.h, and hands it, whole, to a sink.
 *
 * It runs on the thread that carries the domain. It makes no system call, and allocates only when a
 * model comes, or for a request of more cells than any before. If the sink has no room, the event
 * is lost and counted, and a GAP with the number of lost events precedes the next event that finds
 * room.
 *
 * A stream may instead have the turns of one thread that schedules the domain: what goes through
 * its turn log (multicore/turn_log.h), on that thread, in the same form. Implemented in
 * record_stream.c. */
#ifndef TT_RECORD_RECORD_STREAM_H
#define TT_RECORD_RECORD_STREAM_H

#include "base/threads/counter.h"
#include "core/observer.h"
#include "multicore/turn_log.h"
#include "record/record_setup.h"
#include "record/recording.h"

#include <stdbool.h>

struct tt_record_sink {
    void *context;
    /* Takes all of the bytes (one or two events), or none (false). */
    bool (*put)(void *context, const void *bytes, size_t count);
};

struct tt_record_stream {
    struct tt_observer observer;
    struct tt_record_sink sink;
    int64_t last_at;     /* of the last event that was put */
    int64_t next_number; /* of the next arrival, as far as was put */
    int64_t gap;         /* events lost since the last that was put */
    uint8_t *scratch;    /* an event as it is composed */
    int64_t scratch_bytes;
    int32_t max_batch;
    struct tt_counter lost;      /* in all; any thread may read */
    struct tt_turn_log turn_log; /* of a party */
};

/* The thread whose turns a stream has. */
struct tt_record_party {
    uint32_t domain; /* stream of its domain */
    int32_t party, parties;
    int32_t models, batches; /* how many the domain takes, and its executors hold at once */
};

/* Puts the domain's description; after this the observer is ready for tt_mechanism_observe. Errors:
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_record_stream_init(struct tt_record_stream *self,
                                                const struct tt_record_domain *domain,
                                                const struct tt_record_sink *sink,
                                                struct tt_error *why);
/* The same for a party: the turn log is ready to record. */
TT_MUST_CHECK enum tt_err tt_record_stream_init_party(struct tt_record_stream *self,
                                                      const struct tt_record_party *party,
                                                      const struct tt_record_sink *sink,
                                                      struct tt_error *why);
void tt_record_stream_fini(struct tt_record_stream *self);

#endif
