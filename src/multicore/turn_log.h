/* A turn log: what a thread of the multicore scheduler read, and in which order. It is written for
 * a recording, or played back from one.
 *
 * A turn of a model thread or of the rank thread is pure. Its decisions follow from the clock that
 * it was given, from what it knew, and from the messages of other threads that it found. Only the
 * last depends on how the threads are scheduled. So a turn log holds only that:
 * - the number of records taken from each ring,
 * - the models found in a set of changed ones,
 * - the version of each register that was read.
 *
 * The messages themselves follow from the other threads' decisions. The domain, which takes batches
 * and drops from the threads, has a turn log of its own. A turn begins with a checksum of its
 * output. Zeros at its end are omitted, so a turn that found nothing and decided nothing is empty.
 *
 * Recording: at the end of each turn the log lends its numbers to a callback. It belongs to one
 * thread, calls nothing else, and allocates nothing.
 *
 * Playing: the recorded numbers replace what is there. If another party has not advanced far
 * enough, the player runs its turns in the middle of the turn that waits for it. An impossible
 * number, or a turn with another output, ends the playing: from then on nothing is taken.
 *
 * If the log is NULL, all functions do what the thread does without one. */
#ifndef TT_MULTICORE_TURN_LOG_H
#define TT_MULTICORE_TURN_LOG_H

#include "base/threads/latest.h"
#include "base/threads/record_ring.h"

#include <stddef.h>

/* The parties that have a turn log, and the numbers of a turn of each. A "version" is 0 if nothing
 * could be read, else 1 + how many versions the register moved since this party read it last. */
enum tt_turn_log_party {
    /* Takes the threads' decisions. In each DECIDE: from each model thread how many drops it took,
     * then how many batches from the rank thread. */
    TT_PARTY_DOMAIN,
    /* Changes of executors taken; 1 per batch that had ended, then 0; answers taken from each model
     * thread, each with a version if its model had news; then for each model thread how many models
     * had new candidates, their numbers, and of each that waits for no answer a version; then the
     * same of loads, of each a version. */
    TT_PARTY_RANK,
    /* The first model thread; the others follow. 1 and a version if the fleet's figures were new,
     * else 0; grants and ends taken; requests and commands taken. */
    TT_PARTY_MODELS,
};

/* Plays the turn logs of one scheduler. */
struct tt_turn_log_player {
    bool over; /* the playing has ended: nothing is taken any more */
    /* The domain begins a turn: loads the numbers into its log. */
    void (*begin)(struct tt_turn_log_player *self);
    /* Runs the next turn of a thread. False: it cannot advance; the playing has ended. */
    bool (*demand)(struct tt_turn_log_player *self, int32_t party);
    /* Stores a value of the register: its next version, from 1. */
    void (*wrote)(struct tt_turn_log_player *self, int32_t index, const void *value, int32_t bytes);
    /* Returns that version; NULL: it is not written yet. Versions that are read never decrease. */
    const void *(*value)(struct tt_turn_log_player *self, int32_t index, uint64_t version);
    /* The party's turn is impossible, or has another output: ends the playing. */
    void (*fail)(struct tt_turn_log_player *self, int32_t party, const char *what);
};

struct tt_turn_log {
    int32_t party;
    struct tt_turn_log_player *player; /* NULL: it records */
    uint64_t *seen;                    /* [register]: version that was read last */
    uint64_t made;                     /* checksum of this turn's output */
    /* Recording: the numbers of this turn, as varints. */
    uint8_t *bytes, *to;
    size_t capacity;
    /* The turn has ended. Its numbers are borrowed during the call. */
    void (*turned)(void *context, int64_t now, const uint8_t *bytes, size_t count);
    void *context;
    /* Playing: the rest of the turn's numbers, and its instant. */
    const uint8_t *at, *end;
    int64_t played_at;
    uint64_t made_then;
};

/* Number of registers: the models' candidates, their loads, and the fleet, in this order. */
static inline int32_t tt_turn_log_registers(int32_t models) { return 2 * models + 1; }
/* Maximum number of bytes of a turn. Batches: that all executors hold at once. */
size_t tt_turn_log_turn_bytes(int32_t models, int32_t batches, int32_t parties);

static inline bool tt_turn_log_plays(const struct tt_turn_log *self) {
    return self && self->player;
}
/* True if it plays and the playing has ended: later events no longer happen. */
static inline bool tt_turn_log_is_over(const struct tt_turn_log *self) {
    return tt_turn_log_plays(self) && self->player->over;
}

/* Playing: sets the next turn; borrowed until its end. */
void tt_turn_log_load(struct tt_turn_log *self, int64_t now, const uint8_t *bytes, size_t count);
void tt_turn_log_begin(struct tt_turn_log *self);
void tt_turn_log_end(struct tt_turn_log *self, int64_t now);

/* Records what was found, 0 .. `most`, and returns it. Playing: returns what was recorded. */
int64_t tt_turn_log_number(struct tt_turn_log *self, int64_t found, int64_t most);
/* Call it between a look at the ring, which `from` fills, and the first peek. The turn takes the
 * first records of the look, at most `most`. */
void tt_turn_log_take(struct tt_turn_log *self, struct tt_record_ring *ring, int32_t most,
                      int32_t from);
/* As tt_latest_read and _write, of the register `index`, which `writer` writes. */
bool tt_turn_log_read(struct tt_turn_log *self, int32_t index, const struct tt_latest *latest,
                      int32_t writer, void *out_value, int32_t bytes);
void tt_turn_log_write(struct tt_turn_log *self, int32_t index, struct tt_latest *latest,
                       const void *value, int32_t bytes);
/* Playing: fails with `what` unless `holds`, since the recording is then impossible. */
void tt_turn_log_expect(struct tt_turn_log *self, bool holds, const char *what);

/* Adds a decision of the turn to its checksum. */
static inline void tt_turn_log_made(struct tt_turn_log *self, int64_t what) {
    if (self)
        self->made = ((self->made ^ (uint64_t)what) + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

#endif
