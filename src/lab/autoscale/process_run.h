/* Symphony, figure 15, in real time: the load of autoscale.h on a cluster of processes of this
 * machine (process_fleet.h), whose scheduler grows and shrinks it by its own advice.
 *
 * One machine does not carry the requests of hundreds of devices. So run times and objectives are
 * `slower` times as long and rates as much lower: the same fleet, seen in slow motion. Whole
 * backends come and go, so up to one backend's devices more than wanted are up.
 *
 * The scheduler is asked every second. A step's devices are the mean of those looks; used devices
 * are the most that had a batch at a look. A step is settling if the need rose within the time that
 * rates are measured over and a backend starts in. The fewest devices are searched afterwards, by
 * simulation with the same run times.
 *
 * It ends all processes that it has started. Implemented in process_run.c. */
#ifndef TT_LAB_AUTOSCALE_PROCESS_RUN_H
#define TT_LAB_AUTOSCALE_PROCESS_RUN_H

#include "lab/autoscale/autoscale.h"

/* `options->processes` is set. Not read: start_up_s, with_servers. Errors: INVALID: backends do not
 * divide the devices; those of tt_process_fleet_open(). */
TT_MUST_CHECK enum tt_err tt_autoscale_run_processes(const struct tt_autoscale_options *options,
                                                     struct tt_autoscale_result *out_result,
                                                     struct tt_error *why);

#endif
