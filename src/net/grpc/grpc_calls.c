/* What all calls of a loop share: its begin, and the end of calls that would go on for ever. */
#include "net/grpc/grpc_call.h"

void tt_grpc_calls_init(struct tt_grpc_calls *self, const struct tt_grpc_operations *operations,
                        const struct tt_kserve_service *service, const struct tt_limits *limits,
                        struct tt_network_quotas *quotas, struct tt_log *log) {
    *self = (struct tt_grpc_calls){
        .operations = operations, .service = *service, .limits = limits, .log = log};
    tt_body_budget_init(&self->budget, &quotas->receive_bytes, &quotas->bodies);
    tt_list_init(&self->streams);
    tt_list_init(&self->free_calls);
    tt_list_init(&self->free_inferences);
}

void tt_grpc_calls_stop(struct tt_grpc_calls *self) {
    struct tt_list_node *node;
    self->stopping = true;
    tt_body_budget_leave(&self->budget);
    while ((node = tt_list_first(&self->streams)) != NULL) {
        struct tt_grpc_call *call = TT_CONTAINER_OF(node, struct tt_grpc_call, node);
        tt_list_remove(node);
        if (call->running_count == 0)
            tt_grpc_call_fail(call, TT_GRPC_UNAVAILABLE, "the server is stopping");
        else
            call->is_ending = true;
    }
}
