/* The reflection service: ServerReflectionInfo of grpc_methods.h, from the schemas that the build
 * embeds. Messages of v1 and v1alpha are the same on the wire. */
#include "net/grpc/grpc_methods.h"
#include "net/grpc/protobuf_wire.h"

#include "grpc_reflection.pb-c.h"

#include <string.h>

extern const unsigned char tt_grpc_schemas[]; /* a FileDescriptorSet */
extern const size_t tt_grpc_schemas_bytes;

enum { MAX_FILES = 16, NOT_FOUND = 5, UNIMPLEMENTED = 12 };

/* Fields of FileDescriptorProto. */
enum {
    FILE_NAME = 1,
    FILE_PACKAGE = 2,
    FILE_DEPENDENCY = 3,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6
};

struct span {
    const char *bytes;
    size_t size_bytes;
};

static int32_t all_files(struct span out[MAX_FILES]) {
    struct tt_wire wire;
    struct tt_wire_field field;
    int32_t count = 0;
    tt_wire_init(&wire, (const char *)tt_grpc_schemas, tt_grpc_schemas_bytes);
    while (tt_wire_next(&wire, &field)) {
        tt_assert(count < MAX_FILES);
        out[count++] = (struct span){field.bytes, field.size_bytes};
    }
    tt_assert(!wire.is_bad);
    return count;
}

/* The first field `number` of a message; empty: none. */
static struct span member(struct span message, uint32_t number) {
    struct tt_wire wire;
    struct tt_wire_field field;
    tt_wire_init(&wire, message.bytes, message.size_bytes);
    while (tt_wire_next(&wire, &field))
        if (field.number == number && field.type == TT_WIRE_BYTES)
            return (struct span){field.bytes, field.size_bytes};
    return (struct span){"", 0};
}

static bool is(struct span span, const char *string, size_t length) {
    return span.size_bytes == length && memcmp(span.bytes, string, length) == 0;
}

/* Does the file define `symbol`, "package.Name" or something within it? */
static bool defines(struct span file, const char *symbol) {
    struct span package = member(file, FILE_PACKAGE);
    size_t length = strlen(symbol);
    if (length <= package.size_bytes + 1 || symbol[package.size_bytes] != '.' ||
        memcmp(symbol, package.bytes, package.size_bytes) != 0)
        return false;
    const char *name = symbol + package.size_bytes + 1;
    size_t name_bytes = strcspn(name, ".");
    struct tt_wire wire;
    struct tt_wire_field field;
    tt_wire_init(&wire, file.bytes, file.size_bytes);
    while (tt_wire_next(&wire, &field)) {
        const struct span part = {field.bytes, field.size_bytes};
        if ((field.number == FILE_MESSAGE || field.number == FILE_ENUM ||
             field.number == FILE_SERVICE) &&
            is(member(part, 1), name, name_bytes))
            return true;
    }
    return false;
}

/* The file and those it imports, each once. */
static size_t with_imports(const struct span *files, int32_t count, int32_t first,
                           ProtobufCBinaryData out[MAX_FILES]) {
    bool taken[MAX_FILES] = {false};
    size_t found = 0;
    int32_t order[MAX_FILES];
    order[found++] = first;
    taken[first] = true;
    for (size_t i = 0; i < found; i++) {
        const struct span file = files[order[i]];
        struct tt_wire wire;
        struct tt_wire_field field;
        out[i].data = (uint8_t *)(uintptr_t)file.bytes;
        out[i].len = file.size_bytes;
        tt_wire_init(&wire, file.bytes, file.size_bytes);
        while (tt_wire_next(&wire, &field))
            for (int32_t j = 0; field.number == FILE_DEPENDENCY && j < count; j++)
                if (!taken[j] && is(member(files[j], FILE_NAME), field.bytes, field.size_bytes)) {
                    taken[j] = true;
                    order[found++] = j;
                }
    }
    return found;
}

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_answer;

static enum tt_err send_error(reflection_answer answer, int32_t code, const char *sentence,
                              struct tt_text *out, struct tt_error *why) {
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    error.error_code = code;
    error.error_message = (char *)(uintptr_t)sentence;
    answer.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    answer.error_response = &error;
    return tt_grpc_pack(&answer, out, why);
}

static enum tt_err send_file(reflection_answer answer, const char *name, bool is_symbol,
                             struct tt_text *out, struct tt_error *why) {
    struct span files[MAX_FILES];
    ProtobufCBinaryData found[MAX_FILES];
    int32_t count = all_files(files), at = 0;
    while (at < count && !(is_symbol ? defines(files[at], name)
                                     : is(member(files[at], FILE_NAME), name, strlen(name))))
        at++;
    if (at == count)
        return send_error(answer, NOT_FOUND, "the server has no such file or symbol", out, why);
    Grpc__Reflection__V1__FileDescriptorResponse response =
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    response.n_file_descriptor_proto = with_imports(files, count, at, found);
    response.file_descriptor_proto = found;
    answer.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    answer.file_descriptor_response = &response;
    return tt_grpc_pack(&answer, out, why);
}

static enum tt_err send_services(reflection_answer answer, struct tt_text *out,
                                 struct tt_error *why) {
    Grpc__Reflection__V1__ListServiceResponse response =
        GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    Grpc__Reflection__V1__ServiceResponse services[MAX_FILES], *pointers[MAX_FILES];
    struct span files[MAX_FILES];
    char names[MAX_FILES][128];
    int32_t count = all_files(files);
    for (int32_t i = 0; i < count; i++) {
        struct span service = member(files[i], FILE_SERVICE), name = member(service, 1);
        struct span package = member(files[i], FILE_PACKAGE);
        size_t at = response.n_service;
        if (!name.size_bytes || package.size_bytes + name.size_bytes + 2 > sizeof(names[0]))
            continue;
        memcpy(names[at], package.bytes, package.size_bytes);
        names[at][package.size_bytes] = '.';
        memcpy(names[at] + package.size_bytes + 1, name.bytes, name.size_bytes);
        names[at][package.size_bytes + 1 + name.size_bytes] = '\0';
        grpc__reflection__v1__service_response__init(&services[at]);
        services[at].name = names[at];
        pointers[at] = &services[at];
        response.n_service++;
    }
    response.service = pointers;
    answer.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    answer.list_services_response = &response;
    return tt_grpc_pack(&answer, out, why);
}

enum tt_err tt_grpc_answer_reflection(const struct tt_kserve_service *service, const char *bytes,
                                      size_t size_bytes, struct tt_text *out,
                                      struct tt_error *why) {
    (void)service;
    reflection_request *request;
    reflection_answer answer = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    request = tt_grpc_unpack(&grpc__reflection__v1__server_reflection_request__descriptor, bytes,
                             size_bytes, why);
    enum tt_err err = request ? TT_OK : TT_ERR_INVALID;
    if (err)
        return err;
    answer.valid_host = request->host;
    answer.original_request = request;
    switch ((int)request->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        err = send_file(answer, request->file_by_filename, false, out, why);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        err = send_file(answer, request->file_containing_symbol, true, out, why);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        err = send_services(answer, out, why);
        break;
    default:
        err = send_error(answer, UNIMPLEMENTED, "extensions are not supported: there are none", out,
                         why);
        break;
    }
    grpc__reflection__v1__server_reflection_request__free_unpacked(request, NULL);
    return err;
}
