/* Clients of a fleet of processes: requests come when the load says, whether others were answered
 * or not, and are spread over the frontends in turn. A request is good if it is answered within its
 * model's objective, counted from the instant at which it was due.
 *
 * Life: _open; _set_rates and _run in any order; _close, which ends what is under way. One thread.
 * Implemented in process_clients.c. */
#ifndef TT_LAB_AUTOSCALE_PROCESS_CLIENTS_H
#define TT_LAB_AUTOSCALE_PROCESS_CLIENTS_H

#include "lab/autoscale/fleet_world.h"

struct tt_process_clients;

struct tt_process_clients_options {
    const struct tt_fleet_world_model *models; /* borrowed */
    int32_t model_count;
    const char *const *urls; /* of the frontends */
    int32_t url_count;
    int32_t connection_limit; /* to each of them */
    uint64_t seed;
};

/* Errors: those of addresses and sockets; NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_process_clients_open(const struct tt_process_clients_options *options,
                                                  struct tt_process_clients **out_clients,
                                                  struct tt_error *why);
/* Requests per second of each model, from now on. */
void tt_process_clients_set_rates(struct tt_process_clients *self, const double *per_s);
/* Sends what is due and takes answers, until the instant `until_at`. */
void tt_process_clients_run(struct tt_process_clients *self, int64_t until_at);
/* What was counted since the last call, [model_count]. */
void tt_process_clients_take(struct tt_process_clients *self, struct tt_fleet_count *out_counts);
void tt_process_clients_close(struct tt_process_clients *take_self); /* NULL-safe */

#endif
