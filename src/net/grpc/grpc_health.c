/* The health service: Check of grpc_methods.h, and Watch of grpc_call.h. */
#include "net/grpc/grpc_methods.h"
#include "net/grpc/grpc_operations.h"
#include "net/kserve/kserve_parameters.h"

#include "grpc_health.pb-c.h"

#include <string.h>

enum {
    SERVING = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING,
    NOT_SERVING = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING,
    SERVICE_UNKNOWN = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN
};

enum tt_err tt_grpc_read_health(const char *bytes, size_t size_bytes,
                                struct tt_kserve_target *out_target, struct tt_error *why) {
    Grpc__Health__V1__HealthCheckRequest *request;
    request =
        tt_grpc_unpack(&grpc__health__v1__health_check_request__descriptor, bytes, size_bytes, why);
    enum tt_err err = request ? TT_OK : TT_ERR_INVALID;
    if (err)
        return err;
    const char *name = request->service;
    if (strcmp(name, "inference.GRPCInferenceService") == 0)
        name = "";
    *out_target = (struct tt_kserve_target){{0}, {0}};
    if (strlen(name) >= sizeof(out_target->model))
        err = tt_kserve_refuse_long_name(why);
    else
        strcpy(out_target->model, name);
    grpc__health__v1__health_check_request__free_unpacked(request, NULL);
    return err;
}

void tt_grpc_write_health(int32_t status, struct tt_text *out) {
    const char message[] = {0x08, (char)status};
    tt_text_append(out, message, sizeof(message));
}

enum tt_err tt_grpc_health(const struct tt_kserve_service *service,
                           const struct tt_kserve_target *target, int32_t *out_status,
                           struct tt_error *why) {
    enum tt_err err = TT_OK;
    if (*target->model)
        err = tt_kserve_model_ready(service, target, why);
    else if (!tt_kserve_ready(service))
        err = TT_ERR_UNAVAILABLE;
    if (err == TT_ERR_NOT_FOUND)
        return err;
    *out_status = err ? NOT_SERVING : SERVING;
    return TT_OK;
}

enum tt_err tt_grpc_answer_health(const struct tt_kserve_service *service, const char *bytes,
                                  size_t size_bytes, struct tt_text *out, struct tt_error *why) {
    struct tt_kserve_target target;
    int32_t status;
    enum tt_err err = tt_grpc_read_health(bytes, size_bytes, &target, why);
    if (!err)
        err = tt_grpc_health(service, &target, &status, why);
    if (!err)
        tt_grpc_write_health(status, out);
    return err;
}

/* --- Watch --- */

static void send_change(struct tt_grpc_call *call) {
    struct tt_error why;
    struct tt_text message;
    int32_t status;
    if (tt_grpc_health(&call->all->service, &call->target, &status, &why) != TT_OK)
        status = SERVICE_UNKNOWN;
    if (status == call->health || !tt_list_empty(&call->stream.messages))
        return; /* a client that does not read gets the newest status when it does */
    call->health = status;
    tt_text_init(&message);
    tt_grpc_write_health(status, &message);
    tt_grpc_call_send_bytes(call, message.bytes, message.length);
    tt_text_fini(&message);
}

void tt_grpc_call_watch(struct tt_grpc_call *self, const char *bytes, size_t size_bytes) {
    struct tt_error why;
    enum tt_err err = tt_grpc_read_health(bytes, size_bytes, &self->target, &why);
    if (err == TT_ERR_NOT_FOUND)
        self->target = (struct tt_kserve_target){"\xff", ""}; /* the name of no model */
    else if (err)
        tt_grpc_call_fail(self, tt_grpc_status_of(err), why.text);
    if (!self->is_over)
        send_change(self);
}

void tt_grpc_calls_watch(struct tt_grpc_calls *self) {
    struct tt_list_node *node = tt_list_first(&self->streams), *next;
    for (; node; node = next) {
        struct tt_grpc_call *call = TT_CONTAINER_OF(node, struct tt_grpc_call, node);
        next = tt_list_next(&self->streams, node);
        if (call->method->kind == TT_GRPC_WATCH && call->has_message && !call->is_over)
            send_change(call);
    }
}
