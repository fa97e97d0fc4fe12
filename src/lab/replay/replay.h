/* Replays a recorded domain: the events that its policy saw go through the same mechanism and the
 * same policy code, in virtual time, and every answer is compared with the recorded one.
 *
 * The first answer that differs ends the replay: a policy that receives the same events must answer
 * the same, unless it has state outside itself or the program has changed. A gap in the recording
 * ends it too, because what the policy knew then is not known, and so does the end of a truncated
 * file. If the domain was scheduled on threads of its own, they are replayed along with it
 * (replay_threads.h).
 *
 * The part before the end is valid and is kept: the figures of the recorded run, and its arrivals
 * with their cancellations, which can be simulated under another policy (`tt_replay_scenario`,
 * implemented in replay_scenario.c). */
#ifndef TT_LAB_REPLAY_REPLAY_H
#define TT_LAB_REPLAY_REPLAY_H

#include "lab/replay/replay_cells.h"
#include "lab/scenario/measure.h"
#include "lab/scenario/scenario.h"
#include "record/record_setup.h"
#include "record/recording_reader.h"

#include <signal.h>

struct tt_replay {
    const char *path;                /* the recording's */
    int32_t stream;                  /* the domain's number in it, among domains */
    struct tt_record_domain *domain; /* its policy and limits */
    struct tt_record_model **models; /* all models of the domain, in order of their addition */
    int32_t model_count;
    int32_t executors;    /* the maximum number of executors, numbered from 0 */
    int64_t *appeared_at; /* [executors] since base_at, >= 0 */
    /* Progress */
    int64_t events, decisions; /* events replayed; of them answers of the policy (RUN, DROP ...) */
    int64_t turns;             /* of them turns of the threads that scheduled it */
    int64_t base_at, last_at;  /* the first arrival, the last event */
    int64_t lost;              /* > 0: a gap of so many events ended it */
    int64_t left_out;          /* events of the recording after the gap */
    bool cut;                  /* the file has no end mark; this domain was replayed to its end */
    bool differs;
    bool interrupted;
    struct tt_error difference;
    /* The recorded run, from base_at */
    struct tt_measure measure;
    struct tt_sim_arrival *arrivals;
    int64_t arrival_count, arrival_capacity;
    struct tt_replay_cells cells;       /* of those arrivals */
    int64_t unknown_ends;               /* arrivals whose end was not found (replay_cells.h) */
    const struct tt_sim_observer *also; /* is called during the run; NULL: none */
};

/* Replays a domain of the recording. With `check`, every invariant is checked after every decision.
 * `stop` may be NULL. Errors: INVALID (the recording is damaged or has an impossible event, with
 * the offset), NOT_FOUND (its policy does not exist here), NO_MEMORY. A difference is not an error.
 */
TT_MUST_CHECK enum tt_err tt_replay_run(const struct tt_recording *recording, int32_t stream,
                                        bool check, const volatile sig_atomic_t *stop,
                                        struct tt_replay *out_replay, struct tt_error *why);
/* The same. `also` is notified of the tasks that ran, at the recording's own instants. */
TT_MUST_CHECK enum tt_err
tt_replay_run_observed(const struct tt_recording *recording, int32_t stream, bool check,
                       const struct tt_sim_observer *also, const volatile sig_atomic_t *stop,
                       struct tt_replay *out_replay, struct tt_error *why);
void tt_replay_fini(struct tt_replay *self);

/* The recorded arrivals as a scenario under another policy: the models' recorded profiles, every
 * executor a device of its own, the recorded cancellations. `policy` NULL: the recorded one. The
 * scenario borrows the arrivals, their cells and the models' profiles, so the replay must outlive
 * it; one thread at a time may run scenarios of one replay. UNSUPPORTED: the policy cannot run such
 * requests. */
TT_MUST_CHECK enum tt_err tt_replay_scenario(struct tt_replay *self, const char *policy,
                                             const struct tt_option *options, int32_t option_count,
                                             struct tt_scenario *out_scenario,
                                             struct tt_error *why);

#endif
