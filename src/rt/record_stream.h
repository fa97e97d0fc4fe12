/* One domain's events as bytes: an observer that writes each event in the form of rt/recording.h
 * and hands it, whole, to a sink.
 *
 * It runs on the thread that carries the domain: nothing is allocated (but when a model comes), no
 * call goes to the system. A sink that has no room says so; the event is then lost, losses are
 * counted, and the next event that finds room is preceded by a GAP that says how many are missing.
 */
#ifndef TT_RT_RECORD_STREAM_H
#define TT_RT_RECORD_STREAM_H

#include "base/counter.h"
#include "core/observer.h"
#include "rt/record_setup.h"
#include "rt/recording.h"

#include <stdbool.h>

struct tt_record_sink {
    void *context;
    /* Takes all of the bytes, one or two events, or none (false). */
    bool (*put)(void *context, const void *bytes, size_t count);
};

struct tt_record_stream {
    struct tt_observer observer;
    struct tt_record_sink sink;
    int64_t last_at;     /* of the last event that was put */
    int64_t next_number; /* of the arrival that comes next, as far as was put */
    int64_t gap;         /* events lost since the last that was put */
    uint8_t *scratch;    /* an event as it is composed */
    int32_t max_batch;
    struct tt_counter lost; /* in all; any thread may read */
};

/* Puts the domain's description; after this the observer is ready for tt_mechanism_observe. Errors:
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_record_stream_init(struct tt_record_stream *self,
                                                const struct tt_record_domain *domain,
                                                const struct tt_record_sink *sink,
                                                struct tt_message *why);
void tt_record_stream_fini(struct tt_record_stream *self);

#endif
