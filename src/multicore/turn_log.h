/* What a thread of the multicore scheduler was told, and in which order: noted for a recording, or
 * played back from one.
 *
 * A turn of a model thread or of the rank thread is pure: what it decides follows from the clock it
 * was given, from what it knew, and from which of the others' messages it found. Only the last
 * depends on how the threads run beside each other. So that is all that goes on a tape: how many
 * records it took from each ring, which models it found in a set of those that changed, and which
 * version of a register it read. The messages themselves follow again from what the others decided.
 * The domain's part, which takes batches and drops from the threads, has a tape of its own. A turn
 * begins with a checksum of what came out of it; zeros at its end are left out, so one that found
 * nothing and decided nothing is empty.
 *
 * Recording, a tape lends its numbers to whoever keeps them at the end of each turn; it belongs to
 * one thread, calls nothing but that, and allocates nothing. Playing, the numbers come back in the
 * place of what there is: where another party has not gone so far yet, the player lets it go on, in
 * the middle of the turn that waits for it, as it was while these numbers were noted. A number that
 * cannot be, or a turn that comes out otherwise, ends the playing: from then on nothing is taken.
 *
 * All functions do what the thread does without a tape where it is NULL. */
#ifndef TT_MULTICORE_TURN_LOG_H
#define TT_MULTICORE_TURN_LOG_H

#include "base/latest.h"
#include "base/record_ring.h"

#include <stddef.h>

/* Who has a tape. */
enum tt_turn_log_party {
    TT_PARTY_DOMAIN, /* takes what the threads decided */
    TT_PARTY_RANK,
    TT_PARTY_MODELS, /* the first model thread; the others follow */
};

/* Plays the tapes of one scheduler. */
struct tt_turn_log_player {
    bool over; /* nothing is taken any more */
    /* The domain begins a turn: gives its tape the numbers. */
    void (*begin)(struct tt_turn_log_player *self);
    /* Carries out the next turn of a thread. False: it cannot go on; it is over. */
    bool (*demand)(struct tt_turn_log_player *self, int32_t party);
    /* A value for the register: its next version, from 1. */
    void (*wrote)(struct tt_turn_log_player *self, int32_t index, const void *value, int32_t bytes);
    /* That version; NULL: it has not been written yet. Versions read never go back. */
    const void *(*value)(struct tt_turn_log_player *self, int32_t index, uint64_t version);
    /* The party's turn cannot have been so, or comes out otherwise: it is over. */
    void (*fail)(struct tt_turn_log_player *self, int32_t party, const char *what);
};

struct tt_turn_log {
    int32_t party;
    struct tt_turn_log_player *player; /* NULL: it records */
    uint64_t *seen;                    /* [register]: the version read last */
    uint64_t made;                     /* checksum of this turn */
    /* Recording: the numbers of this turn, as varints */
    uint8_t *bytes, *to;
    size_t capacity;
    /* The turn is over: its numbers, borrowed during the call. */
    void (*turned)(void *context, int64_t now, const uint8_t *bytes, size_t count);
    void *context;
    /* Playing: what is left of the turn's numbers, and when it was */
    const uint8_t *at, *end;
    int64_t played_at;
    uint64_t made_then;
};

/* Registers by number: the models' candidates, their loads, and the fleet. */
static inline int32_t tt_turn_log_registers(int32_t models) { return 2 * models + 1; }
/* Of a turn's numbers, at most. */
size_t tt_turn_log_turn_bytes(int32_t models, int32_t executors, int32_t parties);

static inline bool tt_turn_log_plays(const struct tt_turn_log *self) {
    return self && self->player;
}
/* Playing, and over: what has not happened yet does not any more. */
static inline bool tt_turn_log_is_over(const struct tt_turn_log *self) {
    return tt_turn_log_plays(self) && self->player->over;
}

/* Playing: this is the next turn, borrowed until its end. */
void tt_turn_log_load(struct tt_turn_log *self, int64_t now, const uint8_t *bytes, size_t count);
void tt_turn_log_begin(struct tt_turn_log *self);
void tt_turn_log_end(struct tt_turn_log *self, int64_t now);

/* What was found, from 0 to `most`: itself, or when playing what was found then. */
int64_t tt_turn_log_number(struct tt_turn_log *self, int64_t found, int64_t most);
/* To be called between a look at the ring, which `from` fills, and the first peek: the turn takes
 * the first records of the look, `most` if there are more. */
void tt_turn_log_take(struct tt_turn_log *self, struct tt_record_ring *ring, int32_t most,
                      int32_t from);
/* As tt_latest_read and _write, of the register of that number, which `writer` writes. */
bool tt_turn_log_read(struct tt_turn_log *self, int32_t index, const struct tt_latest *latest,
                      int32_t writer, void *out_value, int32_t bytes);
void tt_turn_log_write(struct tt_turn_log *self, int32_t index, struct tt_latest *latest,
                       const void *value, int32_t bytes);
/* When playing: `holds`, or the recording cannot be. */
void tt_turn_log_expect(struct tt_turn_log *self, bool holds, const char *what);

/* Something that the turn decided, for its checksum. */
static inline void tt_turn_log_made(struct tt_turn_log *self, int64_t what) {
    if (self)
        self->made = ((self->made ^ (uint64_t)what) + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

#endif
