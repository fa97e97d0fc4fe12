/* What a simulated server's threads cost beside the models (sim/server_threads.h). Data only; all
 * zero: there is no server, and requests reach the scheduler at once. */
#ifndef TT_SIM_SIM_SERVER_H
#define TT_SIM_SIM_SERVER_H

#include <stdbool.h>
#include <stdint.h>

struct tt_sim_server {
    int32_t processors;      /* 0: no server */
    bool runs_models;        /* executors compute on the same processors */
    int64_t client_turn_ns;  /* of a turn of the generator */
    int64_t client_event_ns; /* and of each request that it sends, and each answer that it reads; 0
                                with client_turn_ns 0: the generator is elsewhere */
    int64_t front_turn_ns;   /* of a turn of the connection thread */
    int64_t front_request_ns, front_answer_ns; /* and of each request, and each answer */
    int64_t client_rejection_ns,
        front_rejection_ns; /* of an answer without outputs: so much more */
    bool answers_at_once;   /* answers take no turn of their own: the turn that submits requests
                               runs their batch and answers it */
    int64_t connections;    /* of the generator: requests under way at once; 0: no limit */
};

#endif
