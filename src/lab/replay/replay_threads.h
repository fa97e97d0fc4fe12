/* Replays the threads that scheduled a recorded domain, all on one thread: the recorded inputs of
 * each are played back to the same code (multicore/turn_log.h).
 *
 * A thread advances only when something waits for it: the domain, for the batches and drops that it
 * received in a decision, or another thread, for a message or for the version of a register that it
 * read. The thread then runs its next turn in the middle of the waiting turn. In a valid recording
 * this is never circular: the other threads' turns were over, or had gone as far, when the recorded
 * thread continued.
 *
 * The replay ends at a gap or at the end of the recording, or at the first turn that is impossible
 * or has another result. The domain's decisions are meaningless from there on. */
#ifndef TT_LAB_REPLAY_REPLAY_THREADS_H
#define TT_LAB_REPLAY_REPLAY_THREADS_H

#include "core/mechanism.h"
#include "record/record_setup.h"
#include "record/recording_reader.h"

struct tt_replay_threads;

/* The progress of the replay. */
struct tt_replay_threads_state {
    bool over;
    enum tt_err err; /* the recording is damaged, or memory ran out; see `why` */
    bool differs;    /* see `why` */
    struct tt_error why;
    int64_t lost;  /* > 0: a gap ended it */
    bool cut;      /* the file is truncated */
    int64_t turns; /* replayed */
};

/* Attaches the domain's policy, scheduled on recorded threads, to the mechanism. The mechanism must
 * be destroyed before this is freed. The recording is borrowed for life. Errors: INVALID (a thread
 * is missing or superfluous), UNSUPPORTED or NOT_FOUND (the policy), NO_MEMORY. */
TT_MUST_CHECK enum tt_err
tt_replay_threads_new(const struct tt_recording *recording, int32_t domain_stream,
                      const struct tt_record_domain *domain, struct tt_mechanism *mechanism,
                      struct tt_replay_threads **out_threads, struct tt_error *why);
/* NULL-safe. */
void tt_replay_threads_free(struct tt_replay_threads *take_threads);
/* Called at the end of the domain's events: replays what the threads did after them. */
void tt_replay_threads_finish(struct tt_replay_threads *self);
/* Borrowed for life. */
const struct tt_replay_threads_state *tt_replay_threads_state(struct tt_replay_threads *self);

#endif
