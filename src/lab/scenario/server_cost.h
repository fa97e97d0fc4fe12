/* What a server spends beside the models: the processor time of a turn of its threads, of a request
 * and of a batch, and how far batches depart from their profiles.
 *
 * The server has `cores` processors. Its executors, the thread that reads and answers requests, and
 * a load generator on the same machine share them evenly (sim/server_threads.h). A batch occupies
 * its executor for batch_ns longer than the model runs, and takes a random multiple of its profile,
 * drawn from `spread`.
 *
 * Data only; all zero: the server costs nothing, and a run is what it is without one. */
#ifndef TT_LAB_SCENARIO_SERVER_COST_H
#define TT_LAB_SCENARIO_SERVER_COST_H

#include "sim/sim_server.h"
#include "sim/spread.h"

struct tt_server_cost {
    int32_t cores;      /* 0: no server */
    double share;       /* of the processors, left by other programs when the costs were measured; a
                           scenario has the rest as perturbations */
    int64_t turn_ns;    /* of the connection thread, per turn of its loop */
    int64_t request_ns; /* and per request, with its answer */
    int64_t client_turn_ns, client_ns; /* of a load generator on the same processors, likewise; 0:
                                          it is elsewhere */
    int64_t rejection_ns, client_rejection_ns; /* per request that is rejected: so much more */
    int64_t connections;                       /* of the generator; 0: no limit */
    int64_t batch_ns;                          /* of an executor, per batch */
    bool emulates;                             /* executors take no processor time */
    bool runs_batches; /* the connection thread runs batches itself, within its turns */
    struct tt_spread spread;
};

/* The threads of a simulation with these costs. */
struct tt_sim_server tt_server_cost_threads(const struct tt_server_cost *self);

#endif
