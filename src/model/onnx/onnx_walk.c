#include "model/onnx/onnx_walk.h"

#include "base/regular_file.h"
#include "base/varint.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum tt_err tt_onnx_damaged(const struct tt_onnx_walk *walk, const uint8_t *at, const char *what) {
    return tt_fail(TT_ERR_INVALID, walk->why, "%s: not a readable ONNX file: at byte %zu %s",
                   walk->file_name, (size_t)(at - walk->start), what);
}

enum tt_err tt_onnx_next_field(const struct tt_onnx_walk *walk, struct tt_onnx_span *span,
                               struct tt_onnx_field *out) {
    const uint8_t *start = span->at;
    uint64_t key, size;
    if (!tt_varint_get(&span->at, span->end, &key) || key > UINT32_MAX || key >> 3 == 0)
        return tt_onnx_damaged(walk, start, "there is no field");
    *out = (struct tt_onnx_field){.number = (uint32_t)(key >> 3), .wire_type = (uint32_t)(key & 7)};
    switch (out->wire_type) {
    case TT_ONNX_WIRE_NUMBER:
        if (!tt_varint_get(&span->at, span->end, &out->value))
            return tt_onnx_damaged(walk, start, "a number is cut off");
        return TT_OK;
    case TT_ONNX_WIRE_64: size = 8; break;
    case TT_ONNX_WIRE_32: size = 4; break;
    case TT_ONNX_WIRE_BYTES:
        if (!tt_varint_get(&span->at, span->end, &size))
            return tt_onnx_damaged(walk, start, "a length is cut off");
        break;
    default: return tt_onnx_damaged(walk, start, "a field has an unknown wire type");
    }
    uint64_t left = (uint64_t)(span->end - span->at);
    if (size > left)
        return tt_fail(TT_ERR_INVALID, walk->why,
                       "%s: not a readable ONNX file: field %u at byte %zu claims %llu bytes, but "
                       "only %llu are left; is the file cut short?",
                       walk->file_name, out->number, (size_t)(start - walk->start),
                       (unsigned long long)size, (unsigned long long)left);
    out->bytes = (struct tt_onnx_span){span->at, span->at + size};
    span->at += size;
    return TT_OK;
}

static enum tt_err apply(struct tt_onnx_walk *walk, const struct tt_onnx_rule *rule,
                         const struct tt_onnx_field *field, struct tt_onnx_span after,
                         void *target) {
    if (field->wire_type != rule->wire_type)
        return tt_onnx_damaged(walk, after.at, "a field has the wrong type");
    if (rule->take)
        return rule->take(walk, field->bytes, target);
    if (rule->wire_type == TT_ONNX_WIRE_NUMBER)
        memcpy((char *)target + rule->offset, &field->value, sizeof(field->value));
    else
        memcpy((char *)target + rule->offset, &field->bytes, sizeof(field->bytes));
    return TT_OK;
}

enum tt_err tt_onnx_read_fields(struct tt_onnx_walk *walk, struct tt_onnx_span message,
                                const struct tt_onnx_rule *rules, size_t count, void *target) {
    enum tt_err err = TT_OK;
    while (!err && message.at < message.end) {
        struct tt_onnx_field field = {0};
        err = tt_onnx_next_field(walk, &message, &field);
        for (size_t i = 0; !err && i < count; i++)
            if (rules[i].number == field.number)
                err = apply(walk, &rules[i], &field, message, target);
    }
    return err;
}

/* ---- a file ---- */

enum tt_err tt_onnx_map_open(const char *path, struct tt_onnx_map *out_map, struct tt_error *why) {
    int descriptor;
    enum tt_err err = tt_regular_file_open(path, &descriptor, why);
    if (err)
        return err;
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        err = tt_fail(TT_ERR_IO, why, "%s: %s", path, strerror(errno));
    else if (status.st_size == 0)
        err = tt_fail(TT_ERR_INVALID, why, "%s: the file is empty", path);
    if (err) {
        close(descriptor);
        return err;
    }
    size_t length = (size_t)status.st_size;
    void *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, descriptor, 0);
    int map_errno = errno;
    close(descriptor);
    if (bytes == MAP_FAILED)
        return tt_fail(TT_ERR_IO, why, "%s: %s", path, strerror(map_errno));
    *out_map = (struct tt_onnx_map){.bytes = bytes, .length = length};
    return TT_OK;
}

void tt_onnx_map_close(struct tt_onnx_map *self) { munmap(self->bytes, self->length); }
