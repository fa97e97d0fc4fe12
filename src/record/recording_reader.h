/* Reads a recording back (the format is record/recording.h): opening checks the header and every
 * block's checksum; a cursor then walks one domain's events.
 *
 * A file may end anywhere (the server was killed, its disk was full), and after a loss of power any
 * page may lack what was written last: zeros. What is whole up to the first such place is valid,
 * and `complete` says whether the end mark was found. Other damage is an error that names the
 * offset. A cursor trusts nothing: every number has a range, and an event outside it is
 * an error with its offset. Whether the events are consistent is for the caller that carries them
 * out. Implemented in recording_reader.c. */
#ifndef TT_RECORD_RECORDING_READER_H
#define TT_RECORD_RECORDING_READER_H

#include "core/policy_ops.h"
#include "record/record_cells.h"
#include "record/recording.h"

#include <stdbool.h>

struct tt_recording {
    const uint8_t *bytes;
    size_t size_bytes;
    size_t end_bytes; /* whole blocks up to here */
    bool complete;    /* it ends with the end mark */
    bool limited;     /* complete, but serving continued: the file had reached its limit */
    bool mapped;      /* by tt_recording_open */
    int32_t stream_count;
    bool *of_thread;               /* [TT_RECORDING_MAX_STREAMS] */
    int32_t domain_count;          /* the others */
    int64_t unix_ns, monotonic_ns; /* when it began, on both clocks */
    char *name;
};

/* True if it has everything until serving ended. */
static inline bool tt_recording_has_end(const struct tt_recording *self) {
    return self->complete && !self->limited;
}

/* Errors: NOT_FOUND, IO, NO_MEMORY; INVALID: "NAME: offset N: what is wrong". */
TT_MUST_CHECK enum tt_err tt_recording_open(const char *path, struct tt_recording *out_recording,
                                            struct tt_error *why);
/* The same from memory (borrowed for life). */
TT_MUST_CHECK enum tt_err tt_recording_open_memory(const void *bytes, size_t size_bytes,
                                                   const char *name,
                                                   struct tt_recording *out_recording,
                                                   struct tt_error *why);
void tt_recording_close(struct tt_recording *self);
/* Asserts that the counts agree with the streams. Of an open recording. */
void tt_recording_check(const struct tt_recording *self);
/* Domains are numbered from 0, among themselves. */
int32_t tt_recording_domain_stream(const struct tt_recording *self, int32_t domain);

struct tt_recorded_fate {
    int32_t item;
    enum tt_fate fate;
    int32_t jump, round;
};

/* Events of cells have the kinds ARRIVED, REFUSED and RUN here. */
struct tt_recorded_event {
    enum tt_record_kind kind;
    int64_t serial; /* within its stream, from 0 */
    size_t offset;  /* in the file */
    int64_t now;
    int64_t number; /* ARRIVED, READY, CANCELLED, DROP: the request's */
    int32_t slot;   /* READY: where its input lies; -1: in no slot */
    /* ARRIVED, REFUSED: with its specs where it is of cells, also as they stand in the file */
    struct tt_arrival arrival;
    const uint8_t *cells;
    size_t cells_bytes;
    int32_t index; /* MODEL, EXECUTOR, YIELD, ABORT, RECEIVED, FINISHED and RUN (executor) */
    enum tt_change change;
    int32_t device;
    const void *message; /* DOMAIN, MODEL added, TURN */
    size_t message_bytes;
    enum tt_outcome outcome; /* FINISHED */
    int32_t last_step_done;
    int64_t started_at, ended_at; /* -1: unknown */
    int64_t received_at;          /* RECEIVED; the same */
    int32_t fate_count;
    const struct tt_recorded_fate *fates;
    int32_t model, first_step, last_step, repeat, length; /* RUN */
    enum tt_task_walk walk;
    int64_t start_at;
    int32_t count;
    const int64_t *numbers;
    const int32_t *subgraphs;   /* of a task of cells: [count]; else NULL */
    enum tt_drop_reason reason; /* DROP */
    int64_t lost;               /* GAP */
    int32_t party;              /* THREAD: of `count`, of the domain in stream `index` */
};

struct tt_recording_cursor {
    const struct tt_recording *recording;
    uint32_t stream;
    size_t next_block;
    const uint8_t *at, *end; /* within a block */
    int64_t now, next_number, serial;
    int64_t *numbers;
    int32_t *subgraphs;
    struct tt_record_cells cells;
    struct tt_recorded_fate *fates;
    const char *bad; /* what is wrong with the event */
    struct tt_recorded_event event;
};

TT_MUST_CHECK enum tt_err tt_recording_cursor_init(struct tt_recording_cursor *self,
                                                   const struct tt_recording *recording,
                                                   int32_t stream, struct tt_error *why);
void tt_recording_cursor_fini(struct tt_recording_cursor *self);
/* The next event, borrowed until the next call; NULL at the end. */
TT_MUST_CHECK enum tt_err tt_recording_next(struct tt_recording_cursor *self,
                                            const struct tt_recorded_event **out_event,
                                            struct tt_error *why);

#endif
