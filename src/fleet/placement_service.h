/* Plans of a running cluster at its scheduler: the commands of `tutti cluster placement`, plans by
 * measured loads at intervals, and what became of them, in the log and as JSON.
 *
 * Commands: "show", "plan" (search one now), "move\tMODEL=POOL..." (this one), "stop", "undo". All
 * are answered with the placement as it is then. After "stop" and "undo" no plan is made at
 * intervals until "plan" comes; these three are for spares, too, so that the next primary knows.
 *
 * A search (fleet/live_plan.h) runs on a thread of the loop's pool with a copy of what it needs.
 * One runs at a time; when the scheduler is no primary any more, its answer is of no use.
 *
 * One thread, the node's. Implemented in placement_service.c (commands, searches) and
 * placement_show.c (the JSON). */
#ifndef TT_FLEET_PLACEMENT_SERVICE_H
#define TT_FLEET_PLACEMENT_SERVICE_H

#include "cluster/scheduler_role.h"
#include "fleet/fleet_node.h"

struct tt_placement_search;

enum tt_placement_mode {
    TT_PLACEMENT_BY_COMMAND, /* plan-every-s is not set */
    TT_PLACEMENT_BY_ITSELF,
    TT_PLACEMENT_HELD, /* at intervals, but for a command that stopped or undid a plan */
};

struct tt_placement_service {
    struct tt_fleet_node *node;
    struct tt_scheduler_role *role;
    struct tt_placement_search *search; /* NULL: none runs */
    int64_t *counted;                   /* [capacity]: tickets at the last look */
    int64_t counted_at, look_at;        /* look_at: TT_NEVER: no plan is made without a command */
    uint64_t epoch;                     /* that `counted` is of; 0: the scheduler is a spare */
    struct tt_text last;                /* what became of the latest plan, or why none was made */
    int64_t done, dropped;              /* plans, since this process started */
    bool is_held;                       /* no plan is made at intervals */
};

/* All of these are borrowed. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_placement_service_init(struct tt_placement_service *self,
                                                    struct tt_fleet_node *node,
                                                    struct tt_scheduler_role *role);
/* A search that runs ends by itself, and is forgotten. */
void tt_placement_service_fini(struct tt_placement_service *self);
/* Appends the placement as a JSON object. Errors: those of the commands; INVALID: no command. */
TT_MUST_CHECK enum tt_err tt_placement_service_command(struct tt_placement_service *self,
                                                       int64_t now, const char *command,
                                                       struct tt_text *out_answer,
                                                       struct tt_error *why);
/* A plan was carried out or dropped. */
void tt_placement_service_placed(struct tt_placement_service *self,
                                 const struct tt_placement_outcome *outcome, const char *reasons);
void tt_placement_service_tick(struct tt_placement_service *self, int64_t now);
int64_t tt_placement_service_next_at(const struct tt_placement_service *self);
enum tt_placement_mode tt_placement_service_mode(const struct tt_placement_service *self);

/* ---- placement_show.c ---- */

/* Appends the placement as a JSON object. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_placement_service_show(const struct tt_placement_service *self,
                                                    struct tt_text *out_json, struct tt_error *why);

#endif
