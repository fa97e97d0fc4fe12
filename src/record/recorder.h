/* `tutti serve --record FILE`: writes every domain's events to one file, beside the serving.
 *
 * Life: opened before the first domain exists; each domain is added before its first event. Each
 * domain, and each thread that schedules one, gets a ring of bytes, into which its own thread puts
 * events (record/record_stream.h). One thread of the recorder empties the rings every few
 * milliseconds and writes blocks. The recorder is closed after the last domain is gone, and then
 * writes the end mark. After a loss of power the header is there, and what is whole behind it is
 * read; what was recorded is on the disk after the close, and before it when the system writes it.
 *
 * Recording never delays serving. If the disk is slow, a ring fills and events are lost; the file
 * says where. If the disk is full or fails, half a block is cut off again, and the block is tried
 * again every second while events are lost; after a success the recording continues behind a gap.
 * The scheduler's threads make no system call and take no lock for it, and allocate only when a
 * model comes, or for a request of more cells than any before. Implemented in recorder.c. */
#ifndef TT_RECORD_RECORDER_H
#define TT_RECORD_RECORDER_H

#include "base/log/log_settings.h"
#include "core/observer.h"
#include "record/record_setup.h"
#include "record/record_stream.h"

enum { TT_RECORDER_RING_BYTES = 4 << 20 };

struct tt_recorder_options {
    const char *path;  /* overwritten */
    int64_t max_bytes; /* of the file: the recording ends there, and can be replayed so far; 0: no
                          limit */
    size_t ring_bytes; /* per stream; 0: TT_RECORDER_RING_BYTES */
    const char *program;
    /* Messages for people: what went wrong, and that serving continues. On the recorder's thread;
     * may be NULL. */
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
};

struct tt_recorder;
struct tt_recorder_stream; /* of one domain, or of a thread that schedules one */

/* Creates the file and starts the thread. Errors: IO (with the path; also while another recorder
 * has the file), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_recorder_open(const struct tt_recorder_options *options,
                                           struct tt_recorder **out_recorder, struct tt_error *why);
/* Observes `mechanism` from now on, before its first event. `domain->program` is filled in. Errors:
 * NO_MEMORY, BUSY (too many domains). */
TT_MUST_CHECK enum tt_err tt_recorder_add(struct tt_recorder *self, struct tt_mechanism *mechanism,
                                          const struct tt_record_domain *domain,
                                          struct tt_recorder_stream **out_stream,
                                          struct tt_error *why);
/* The stream of a party to the scheduling of `domain` (multicore/turn_log.h), for its numbers of
 * models and executors. The turn log is the stream's, and is used by one thread. Errors as
 * tt_recorder_add(). */
TT_MUST_CHECK enum tt_err
tt_recorder_add_party(struct tt_recorder *self, const struct tt_recorder_stream *domain,
                      const struct tt_record_party *party, struct tt_recorder_stream **out_stream,
                      struct tt_turn_log **out_turn_log, struct tt_error *why);
/* The mechanism is gone: its ring is given back when its events are written. NULL-safe. A stream
 * that is not left stays until the close. */
void tt_recorder_leave(struct tt_recorder_stream *stream);
/* No domain has events any more. Writes the rest. IO: what could not be written, or how many events
 * were lost. NULL-safe. */
TT_MUST_CHECK enum tt_err tt_recorder_close(struct tt_recorder *take_self, struct tt_error *why);

struct tt_recorder_stats {
    int64_t bytes, lost_events;
};
/* Any thread. */
struct tt_recorder_stats tt_recorder_stats(struct tt_recorder *self);

#endif
