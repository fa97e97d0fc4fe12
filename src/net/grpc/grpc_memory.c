/* Shared memory over gRPC: status, register and unregister of grpc_methods.h. */
#include "net/grpc/grpc_methods.h"

#include "grpc_service.pb-c.h"
#include "net/grpc/grpc_pack.h"
#include "net/grpc/protobuf_wire.h"
#include "net/kserve/kserve_parameters.h"
#include "net/kserve/shared_memory.h"

#include <string.h>

static size_t field_bytes(size_t size_bytes) {
    return 1 + tt_wire_varint_bytes(size_bytes) + size_bytes;
}

/* One entry of map<string, RegionStatus> regions = 1. */
static void put_region(void *context, const char *name, const char *key, uint64_t offset,
                       uint64_t size) {
    struct tt_text *out = context;
    size_t name_bytes = field_bytes(strlen(name));
    size_t status_bytes = name_bytes + field_bytes(strlen(key)) + 1 + tt_wire_varint_bytes(offset) +
                          1 + tt_wire_varint_bytes(size);
    tt_wire_put_tag(out, 1, TT_WIRE_BYTES);
    tt_wire_put_varint(out, name_bytes + field_bytes(status_bytes));
    tt_wire_put_string(out, 1, name);
    tt_wire_put_tag(out, 2, TT_WIRE_BYTES);
    tt_wire_put_varint(out, status_bytes);
    tt_wire_put_string(out, 1, name);
    tt_wire_put_string(out, 2, key);
    tt_wire_put_tag(out, 3, TT_WIRE_VARINT);
    tt_wire_put_varint(out, offset);
    tt_wire_put_tag(out, 4, TT_WIRE_VARINT);
    tt_wire_put_varint(out, size);
}

enum tt_err tt_grpc_answer_memory_status(const struct tt_kserve_service *service, const char *bytes,
                                         size_t size_bytes, struct tt_text *out,
                                         struct tt_error *why) {
    Inference__SystemSharedMemoryStatusRequest *request;
    if (!service->memory)
        return tt_kserve_refuse_shared_memory(why);
    request = tt_grpc_unpack(&inference__system_shared_memory_status_request__descriptor, bytes,
                             size_bytes, why);
    if (!request)
        return TT_ERR_INVALID;
    enum tt_err err = tt_shared_memory_each(service->memory, request->name, put_region, out, why);
    inference__system_shared_memory_status_request__free_unpacked(request, NULL);
    return !err && out->failed ? tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the answer") : err;
}

enum tt_err tt_grpc_answer_memory_register(const struct tt_kserve_service *service,
                                           const char *bytes, size_t size_bytes,
                                           struct tt_text *out, struct tt_error *why) {
    (void)out; /* the answer is empty */
    Inference__SystemSharedMemoryRegisterRequest *request;
    if (!service->memory)
        return tt_kserve_refuse_shared_memory(why);
    request = tt_grpc_unpack(&inference__system_shared_memory_register_request__descriptor, bytes,
                             size_bytes, why);
    if (!request)
        return TT_ERR_INVALID;
    enum tt_err err = tt_shared_memory_register(service->memory, request->name, request->key,
                                                request->offset, request->byte_size, why);
    inference__system_shared_memory_register_request__free_unpacked(request, NULL);
    return err;
}

enum tt_err tt_grpc_answer_memory_unregister(const struct tt_kserve_service *service,
                                             const char *bytes, size_t size_bytes,
                                             struct tt_text *out, struct tt_error *why) {
    (void)out; /* the answer is empty */
    Inference__SystemSharedMemoryUnregisterRequest *request;
    if (!service->memory)
        return tt_kserve_refuse_shared_memory(why);
    request = tt_grpc_unpack(&inference__system_shared_memory_unregister_request__descriptor, bytes,
                             size_bytes, why);
    if (!request)
        return TT_ERR_INVALID;
    tt_shared_memory_unregister(service->memory, request->name);
    inference__system_shared_memory_unregister_request__free_unpacked(request, NULL);
    return TT_OK;
}
