/* How many devices of which type a fleet needs, hour by hour, and which model lies where.
 *
 * Each model lies on one type of device, for all hours. The models of a type share its devices; if
 * they do not fit into the memory of one, they are partitioned into sub-clusters (place/), each
 * with devices of its own. The devices of an hour are those that the advice wants for its rates
 * (scale/devices_wanted.h). A local search moves single models between types while that makes the
 * fleet cheaper: a device counts for its price, also while it starts. Then each sub-cluster is
 * simulated at its busiest hour; if more than 1 % is bad, it gets more devices in every hour.
 *
 * What-ifs plan again with other objectives, other rates, or without a type, and are not simulated.
 *
 * It reads no clock and prints nothing; the same file gives the same plan. Running out of memory
 * ends the process (lab/scenario/allocate.h). Implemented in fleet_plan.c (the search) and
 * fleet_check.c (simulations and what-ifs). */
#ifndef TT_LAB_PLAN_FLEET_PLAN_H
#define TT_LAB_PLAN_FLEET_PLAN_H

#include "lab/plan/fleet_file.h"

#include <stdbool.h>

/* What differs from the file. */
struct tt_fleet_change {
    double objectives, rates; /* factors; 0 counts as 1 */
    uint32_t without;         /* bit t: type t does not exist */
};

struct tt_fleet_group {
    int32_t type, model_count;
    int32_t devices[TT_FLEET_MAX_HOURS];
    int32_t peak_hour;
    double factor;        /* of the devices, by simulation; >= 1 */
    double simulated_bad; /* at the peak hour; below 0: not simulated */
};

struct tt_fleet_plan {
    int32_t type_of[TT_FLEET_MAX_MODELS], group_of[TT_FLEET_MAX_MODELS];
    struct tt_fleet_group groups[TT_FLEET_MAX_MODELS];
    int32_t group_count;
    double cost;       /* of all hours, devices coming and going by the hour */
    double fixed_cost; /* if each type had the devices of its busiest hour all the time */
    double requests;
    double cost_per_million; /* timely requests */
};

/* Errors: INVALID with the reason when no assignment can serve the load, e.g. a type that a model
 * needs has too few devices. */
TT_MUST_CHECK enum tt_err tt_fleet_plan_make(const struct tt_fleet_file *file,
                                             const struct tt_fleet_change *change,
                                             struct tt_fleet_plan *out_plan, struct tt_error *why);
/* Simulates each group at its busiest hour and corrects the plan. Errors: those of the policy. */
TT_MUST_CHECK enum tt_err tt_fleet_plan_check(const struct tt_fleet_file *file,
                                              struct tt_fleet_plan *plan, struct tt_error *why);
/* Devices of a type in an hour. */
int32_t tt_fleet_plan_devices(const struct tt_fleet_plan *plan, int32_t type, int32_t hour);

enum { TT_FLEET_WHAT_IFS = 6 + TT_FLEET_MAX_TYPES, TT_FLEET_WORDS = 96 };
struct tt_fleet_what_if {
    char change[TT_FLEET_WORDS];
    double cost_per_million; /* 0: there is no plan */
    double cost;
    struct tt_error why;
};
/* Returns how many there are. */
int32_t tt_fleet_what_ifs(const struct tt_fleet_file *file,
                          struct tt_fleet_what_if out[TT_FLEET_WHAT_IFS]);

/* ---- for the files of this folder ---- */

/* Adds up cost, fixed_cost and requests from the groups. */
void tt_fleet_plan_sum(const struct tt_fleet_file *file, const struct tt_fleet_change *change,
                       struct tt_fleet_plan *plan);

#endif
