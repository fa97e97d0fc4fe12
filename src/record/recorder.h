/* `tutti serve --record FILE`: every domain's events into one file, beside the serving.
 *
 * Life: opened before the first domain exists; each domain is added before its first event; each
 * gets a ring of bytes into which its own thread puts events (record/record_stream.h), and so does
 * each thread that schedules one; one thread of the recorder empties the rings every few
 * milliseconds and writes blocks. It is closed after the last domain is gone: then the end mark is
 * written.
 *
 * Recording never holds serving up. When the disk is slow, a ring fills and events are lost, which
 * the file says where it happened. When the disk is full or fails, half a block is cut off again,
 * and the block is tried anew every second while events are lost; should it succeed, the recording
 * goes on behind a gap. The scheduler's threads make no system call and no allocation for it (but
 * when a model comes, or a request of more cells than any before), and take no lock. */
#ifndef TT_RECORD_RECORDER_H
#define TT_RECORD_RECORDER_H

#include "base/log_settings.h"
#include "core/observer.h"
#include "record/record_setup.h"
#include "record/record_stream.h"

enum { TT_RECORDER_RING_BYTES = 4 << 20 };

struct tt_recorder_options {
    const char *path;  /* overwritten */
    int64_t max_bytes; /* of the file: it ends there, and can be replayed so far; 0: no limit */
    size_t ring_bytes; /* per stream; 0: TT_RECORDER_RING_BYTES */
    const char *program;
    /* For people: what went wrong, and that it goes on. The recorder's thread; may be NULL. */
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
};

struct tt_recorder;
struct tt_recorder_stream; /* of one domain, or of a thread that schedules one */

/* Makes the file and starts the thread. Errors: IO (with the path), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_recorder_open(const struct tt_recorder_options *options,
                                           struct tt_recorder **out_recorder, struct tt_error *why);
/* Listens to `mechanism` from now on; nothing was told to it yet. `domain->program` is filled in.
 * Errors: NO_MEMORY, BUSY (too many domains). */
TT_MUST_CHECK enum tt_err tt_recorder_add(struct tt_recorder *self, struct tt_mechanism *mechanism,
                                          const struct tt_record_domain *domain,
                                          struct tt_recorder_stream **out_stream,
                                          struct tt_error *why);
/* The stream of a party to the scheduling of `domain` (multicore/turn_log.h), for as many models
 * and executors as it takes. The tape is the stream's, and is to be used from one thread. Errors as
 * tt_recorder_add.
 */
TT_MUST_CHECK enum tt_err
tt_recorder_add_party(struct tt_recorder *self, const struct tt_recorder_stream *domain,
                      const struct tt_record_party *party, struct tt_recorder_stream **out_stream,
                      struct tt_turn_log **out_tape, struct tt_error *why);
/* The mechanism is gone: when what it told is written, its ring is given back. NULL-safe. Whoever
 * does not leave stays until the close. */
void tt_recorder_leave(struct tt_recorder_stream *stream);
/* No domain tells anything any more. Writes the rest. IO: what could not be written in the end, or
 * how many events were lost meanwhile. NULL-safe. */
TT_MUST_CHECK enum tt_err tt_recorder_close(struct tt_recorder *take_self, struct tt_error *why);

struct tt_recorder_stats {
    int64_t bytes, lost_events;
};
/* Any thread. */
struct tt_recorder_stats tt_recorder_stats(struct tt_recorder *self);

#endif
