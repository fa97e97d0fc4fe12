/* The threads that scheduled a recorded domain, once more, on one: what the recording has of each
 * of them is played back to the same object code (multicore/turn_log.h).
 *
 * They go on only when something waits for them: the domain, for the batches and drops that it took
 * in a decision, or another thread, for a message or for the version of a register that it found. A
 * thread then does its next turn in the middle of the turn that waits; the others' turns up to
 * there had been over, or gone as far, when the recorded thread went on, so this never goes in a
 * circle in a recording that is true.
 *
 * It ends early where the recording has a gap or ends, or at the first turn that cannot be or comes
 * out otherwise; then the domain's decisions from there on mean nothing. */
#ifndef TT_LAB_REPLAY_REPLAY_THREADS_H
#define TT_LAB_REPLAY_REPLAY_THREADS_H

#include "core/mechanism.h"
#include "record/record_setup.h"
#include "record/recording_reader.h"

struct tt_replay_threads;

/* How far it went. */
struct tt_replay_threads_state {
    bool over;
    enum tt_err err; /* the recording is damaged, or memory ran out; `why` says it */
    bool differs;    /* `why` says how */
    struct tt_error why;
    int64_t lost;  /* > 0: a gap ended it */
    bool cut;      /* the file ended where it should not */
    int64_t turns; /* carried out */
};

/* Attaches the domain's policy, scheduled on recorded threads, to the mechanism, which is to be
 * destroyed before this is freed. The recording is borrowed for life. Errors: INVALID (it lacks a
 * thread, or has one too many), UNSUPPORTED or NOT_FOUND (the policy), NO_MEMORY. */
TT_MUST_CHECK enum tt_err
tt_replay_threads_new(const struct tt_recording *recording, int32_t domain_stream,
                      const struct tt_record_domain *domain, struct tt_mechanism *mechanism,
                      struct tt_replay_threads **out_threads, struct tt_error *why);
/* NULL-safe. */
void tt_replay_threads_free(struct tt_replay_threads *take_threads);
/* The domain's story is over: what the threads did beyond it. */
void tt_replay_threads_finish(struct tt_replay_threads *self);
/* Borrowed for life. */
const struct tt_replay_threads_state *tt_replay_threads_state(struct tt_replay_threads *self);

#endif
