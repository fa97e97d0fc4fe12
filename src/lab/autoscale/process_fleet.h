/* A cluster of processes of this machine that scales by its load: a scheduler with the provider of
 * emulated backends (actuate/emulated_provider.h), frontends, and at most `backends` backends that
 * share the devices. The models are those of a simulated fleet, in a repository that is written for
 * the purpose.
 *
 * Life: _open starts scheduler and frontends, and returns when `first` backends serve; from then on
 * the scheduler follows its advice. _look as often as wanted. _close ends all processes, also those
 * that the scheduler has started, and removes the folder. If this process is killed by SIGKILL, its
 * processes go on.
 *
 * Blocks. One thread. Implemented in process_fleet.c. */
#ifndef TT_LAB_AUTOSCALE_PROCESS_FLEET_H
#define TT_LAB_AUTOSCALE_PROCESS_FLEET_H

#include "actuate/emulated_provider.h"
#include "lab/autoscale/fleet_world.h"
#include "lab/processes/process_cluster.h"

struct tt_process_fleet_options {
    const struct tt_fleet_world_model *models; /* read during _open only */
    int32_t model_count;
    int32_t backends, devices;         /* devices: of all backends, a multiple of them */
    int32_t first;                     /* devices to begin with */
    double hold_s;                     /* devices go when they were not needed for so long */
    double slower;                     /* times of the cluster are so much longer than usual */
    const volatile sig_atomic_t *stop; /* ends _open; may be NULL */
};

/* What the scheduler says. */
struct tt_process_view {
    int32_t ready, busy, asked; /* devices */
    int32_t wanted;             /* 0: not known yet */
    double confidence;
    int64_t granted;   /* batches, since it started */
    int64_t suspected; /* backends that seemed to have stopped, since then */
    double start_up_s; /* of a backend; 0: not known yet */
};

struct tt_process_fleet {
    struct tt_process_cluster cluster;
    const struct tt_process_fleet_options *options; /* during _open */
    bool is_pinned;                                 /* its first devices are asked for */
};

/* Errors: IO; UNAVAILABLE: a process has ended, with what it said last; TIMEOUT: they do not serve;
 * CANCELLED: `stop`. Then all has ended. */
TT_MUST_CHECK enum tt_err tt_process_fleet_open(struct tt_process_fleet *self,
                                                const struct tt_process_fleet_options *options,
                                                struct tt_error *why);
/* Errors: as above. */
TT_MUST_CHECK enum tt_err tt_process_fleet_look(struct tt_process_fleet *self,
                                                struct tt_process_view *out_view,
                                                struct tt_error *why);
/* Also after a failed _open. Errors: TIMEOUT: processes go on; the message has the folder with
 * their numbers. */
TT_MUST_CHECK enum tt_err tt_process_fleet_close(struct tt_process_fleet *self,
                                                 struct tt_error *why);

#endif
