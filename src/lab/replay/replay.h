/* A recorded domain once more: the events that its policy saw go through the same mechanism and the
 * same policy object code, in virtual time, and every answer is held against the recorded one.
 *
 * The first answer that differs ends the replay (a policy that is told the same must answer the
 * same; where it does not, it has state outside itself, or the program has changed). So does a gap
 * in the recording, for what the policy knew then is not known; and the end of a file that was cut.
 * A domain that was scheduled on threads of its own has them played back along with it
 * (lab/replay/replay_threads.h). What was carried out so far is good, and is kept: the figures of
 * the recorded reality, and its arrivals with their cancellations, so that a simulation can be run
 * on what another policy would have made of them (`tt_replay_scenario`). */
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
    struct tt_record_model **models; /* every model that ever came, in order */
    int32_t model_count;
    int32_t executors;    /* how many there were at most, numbered from 0 */
    int64_t *appeared_at; /* [executors] since base_at, never below 0 */
    /* How far it went */
    int64_t events, decisions; /* carried out; of them answers of the policy (RUN, DROP ...) */
    int64_t turns;             /* of them the turns of the threads that scheduled it */
    int64_t base_at, last_at;  /* the first arrival, the last event */
    int64_t lost;              /* > 0: a gap ended it, of so many events */
    int64_t left_out;          /* events of the recording after the gap */
    bool cut; /* the file has no end mark, and this domain was carried out to there */
    bool differs;
    bool interrupted;
    struct tt_error difference;
    /* What was, from base_at on */
    struct tt_measure measure;
    struct tt_sim_arrival *arrivals;
    int64_t arrival_count, arrival_capacity;
    struct tt_replay_cells cells;       /* of those arrivals */
    int64_t unknown_ends;               /* arrivals of which the end was not found, see there */
    const struct tt_sim_observer *also; /* during the run; NULL: none */
};

/* Replays a domain of the recording. `check`: every invariant after every decision. `stop` may be
 * NULL. Errors: INVALID (the recording is damaged or tells what cannot be, with the offset),
 * NOT_FOUND (its policy does not exist here), NO_MEMORY. A difference is not an error. */
TT_MUST_CHECK enum tt_err tt_replay_run(const struct tt_recording *recording, int32_t stream,
                                        bool check, const volatile sig_atomic_t *stop,
                                        struct tt_replay *out_replay, struct tt_error *why);
/* The same. `also` is told of the tasks that ran, at the recording's own instants. */
TT_MUST_CHECK enum tt_err
tt_replay_run_observed(const struct tt_recording *recording, int32_t stream, bool check,
                       const struct tt_sim_observer *also, const volatile sig_atomic_t *stop,
                       struct tt_replay *out_replay, struct tt_error *why);
void tt_replay_fini(struct tt_replay *self);

/* The recorded arrivals as a scenario under another policy: the models' recorded profiles, every
 * executor a device of its own, the recorded cancellations. `policy` NULL: the recorded one.
 * Borrows the arrivals, their cells and the models' profiles: the replay outlives it, and what is
 * made of one is run by one thread at a time. UNSUPPORTED: the policy cannot run such requests. */
TT_MUST_CHECK enum tt_err tt_replay_scenario(struct tt_replay *self, const char *policy,
                                             const struct tt_option *options, int32_t option_count,
                                             struct tt_scenario *out_scenario,
                                             struct tt_error *why);

#endif
