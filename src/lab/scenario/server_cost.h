/* What a server spends beside the models: the processor time of a request and of a batch, and how
 * far batches depart from their profiles.
 *
 * The server has `cores` processors. Its executors, the thread that reads and answers requests, and
 * a load generator on the same machine share them. A simulation charges the costs as follows:
 * - Requests pass the connection thread one after another; each takes request_ns there.
 * - A batch occupies its executor for batch_ns longer than the model runs.
 * - What the other threads need beyond the processors that no executor uses is taken from the
 *   executors: a request lengthens the batch in which it first runs (_shared_ns).
 * - A batch takes a random multiple of its profile, drawn from spread_permille.
 *
 * Data only; all zero: the server costs nothing, and a run is what it is without one. */
#ifndef TT_LAB_SCENARIO_SERVER_COST_H
#define TT_LAB_SCENARIO_SERVER_COST_H

#include "sim/spread.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_server_cost {
    int32_t cores;      /* 0: no server */
    double share;       /* of the processors, left by other programs when the costs were measured; a
                           scenario has the rest as perturbations */
    int64_t request_ns; /* of the connection thread, per request */
    int64_t client_ns;  /* of a load generator on the same processors, per request; 0: elsewhere */
    int64_t batch_ns;   /* of an executor, per batch */
    struct tt_spread spread;
};

/* The time by which one request lengthens its batch where `executors` are busy and requests come
 * at `rate` (lab/scenario/rate.h): that part of request_ns + client_ns for which no processor is
 * left. */
int64_t tt_server_cost_shared_ns(const struct tt_server_cost *self, int32_t executors,
                                 int64_t rate);

#endif
