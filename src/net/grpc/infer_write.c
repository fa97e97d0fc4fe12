/* Writing of infer_message.h. */
#include "net/grpc/infer_message.h"
#include "net/grpc/protobuf_wire.h"
#include "net/kserve/kserve_share.h"

#include <string.h>

enum { PREFIX_BYTES = 5, MAX_NESTED_BYTES = 1 << 16 };

/* Lengths are known before anything is written, so no message is written twice. */
static size_t field_bytes(size_t size_bytes) {
    return 1 + tt_wire_varint_bytes(size_bytes) + size_bytes;
}

static size_t shape_bytes(const struct tt_shape *shape) {
    size_t sum = 0;
    for (int32_t i = 0; i < shape->rank; i++)
        sum += tt_wire_varint_bytes((uint64_t)shape->dims[i]);
    return sum;
}

/* The parameters of an output in shared memory: entries of map<string, InferParameter>. */
static const char region_key[] = "shared_memory_region", size_key[] = "shared_memory_byte_size",
                  offset_key[] = "shared_memory_offset";

static size_t entry_bytes(const char *key, size_t value_bytes) {
    return field_bytes(field_bytes(strlen(key)) + field_bytes(value_bytes));
}

static size_t share_bytes(const struct tt_kserve_share *share, size_t size_bytes) {
    size_t name_bytes = strlen(tt_shared_region_name(share->region));
    size_t sum = entry_bytes(region_key, field_bytes(name_bytes)) +
                 entry_bytes(size_key, 1 + tt_wire_varint_bytes(size_bytes));
    if (share->offset)
        sum += entry_bytes(offset_key, 1 + tt_wire_varint_bytes(share->offset));
    return sum;
}

static void put_entry(struct tt_text *out, const char *key, size_t value_bytes) {
    tt_wire_put_tag(out, 4, TT_WIRE_BYTES);
    tt_wire_put_varint(out, field_bytes(strlen(key)) + field_bytes(value_bytes));
    tt_wire_put_string(out, 1, key);
    tt_wire_put_tag(out, 2, TT_WIRE_BYTES);
    tt_wire_put_varint(out, value_bytes);
}

static void put_integer(struct tt_text *out, const char *key, uint64_t value) {
    put_entry(out, key, 1 + tt_wire_varint_bytes(value));
    tt_wire_put_tag(out, 2, TT_WIRE_VARINT);
    tt_wire_put_varint(out, value);
}

static void put_share(struct tt_text *out, const struct tt_kserve_share *share, size_t size_bytes) {
    const char *name = tt_shared_region_name(share->region);
    put_entry(out, region_key, field_bytes(strlen(name)));
    tt_wire_put_string(out, 3, name);
    put_integer(out, size_key, size_bytes);
    if (share->offset)
        put_integer(out, offset_key, share->offset);
}

/* Of the entry in raw_output_contents, which every output has. */
static size_t raw_bytes(const struct tt_kserve_answer *answer, int32_t i) {
    return answer->outputs[i].share ? 0 : answer->outputs[i].view.size_bytes;
}

static size_t output_bytes(const struct tt_kserve_answer *answer, int32_t i) {
    const struct tt_tensor_spec *spec = answer->outputs[i].spec;
    return field_bytes(strlen(spec->name)) + field_bytes(strlen(tt_dtype_name(spec->dtype))) +
           field_bytes(shape_bytes(&answer->outputs[i].view.shape)) +
           (answer->outputs[i].share
                ? share_bytes(answer->outputs[i].share, answer->outputs[i].view.size_bytes)
                : 0);
}

/* Entries of `parameters`: triton_final_response = false and true, of equal length. */
static const char final_false[] = "\x0a\x15triton_final_response\x12\x02\x08\x00";
static const char final_true[] = "\x0a\x15triton_final_response\x12\x02\x08\x01";
enum { FINAL_BYTES = sizeof(final_true) - 1 };

static size_t answer_bytes(const struct tt_kserve_answer *answer, struct tt_infer_form form) {
    size_t sum =
        field_bytes(strlen(answer->model_name)) + field_bytes(strlen(answer->model_version));
    if (answer->id->length)
        sum += field_bytes(answer->id->length);
    if (form.final)
        sum += field_bytes(FINAL_BYTES);
    for (int32_t i = 0; i < answer->output_count; i++)
        sum += field_bytes(output_bytes(answer, i)) + field_bytes(raw_bytes(answer, i));
    return sum;
}

static void put_prefix(struct tt_text *out, size_t size_bytes) {
    const unsigned char prefix[PREFIX_BYTES] = {
        0, (unsigned char)(size_bytes >> 24), (unsigned char)(size_bytes >> 16),
        (unsigned char)(size_bytes >> 8), (unsigned char)size_bytes};
    tt_text_append(out, prefix, sizeof(prefix));
}

static void put_output(struct tt_text *out, const struct tt_kserve_answer *answer, int32_t i) {
    const struct tt_tensor_spec *spec = answer->outputs[i].spec;
    const struct tt_shape *shape = &answer->outputs[i].view.shape;
    tt_wire_put_tag(out, 5, TT_WIRE_BYTES);
    tt_wire_put_varint(out, output_bytes(answer, i));
    tt_wire_put_string(out, 1, spec->name);
    tt_wire_put_string(out, 2, tt_dtype_name(spec->dtype));
    tt_wire_put_tag(out, 3, TT_WIRE_BYTES);
    tt_wire_put_varint(out, shape_bytes(shape));
    for (int32_t d = 0; d < shape->rank; d++)
        tt_wire_put_varint(out, (uint64_t)shape->dims[d]);
    if (answer->outputs[i].share)
        put_share(out, answer->outputs[i].share, answer->outputs[i].view.size_bytes);
}

bool tt_infer_message_write(const struct tt_kserve_answer *answer, struct tt_infer_form form,
                            struct tt_http2_message *out_message) {
    struct tt_text *out = &out_message->text;
    size_t size_bytes = answer_bytes(answer, form);
    size_t whole_bytes = form.is_streamed ? field_bytes(size_bytes) : size_bytes;
    if (whole_bytes > UINT32_MAX)
        return false;
    if (!form.is_copied)
        tt_http2_message_add_text(out_message); /* of the answers before */
    size_t before_bytes = form.is_copied ? out->length : out_message->left_bytes;
    tt_text_reserve(out, whole_bytes < MAX_NESTED_BYTES ? whole_bytes + PREFIX_BYTES + 16 : 512);
    put_prefix(out, whole_bytes);
    if (form.is_streamed) {
        tt_wire_put_tag(out, 2, TT_WIRE_BYTES);
        tt_wire_put_varint(out, size_bytes);
    }
    tt_wire_put_string(out, 1, answer->model_name);
    tt_wire_put_string(out, 2, answer->model_version);
    if (answer->id->length)
        tt_wire_put_bytes(out, 3, answer->id->bytes, answer->id->length);
    if (form.final)
        tt_wire_put_bytes(out, 4, form.final == TT_INFER_FINAL_TRUE ? final_true : final_false,
                          FINAL_BYTES);
    for (int32_t i = 0; i < answer->output_count; i++)
        put_output(out, answer, i);
    for (int32_t i = 0; i < answer->output_count; i++) {
        const struct tt_tensor_view *view = &answer->outputs[i].view;
        tt_wire_put_tag(out, 6, TT_WIRE_BYTES);
        size_t bytes = raw_bytes(answer, i);
        tt_wire_put_varint(out, bytes);
        if (form.is_copied)
            tt_text_append(out, view->bytes, bytes);
        else
            tt_http2_message_add(out_message, view->bytes, bytes);
    }
    if (!form.is_copied)
        tt_http2_message_add_text(out_message);
    size_t after_bytes = form.is_copied ? out->length : out_message->left_bytes;
    tt_assert(out->failed || after_bytes == before_bytes + whole_bytes + PREFIX_BYTES);
    return !out->failed;
}

bool tt_infer_message_write_error(const char *sentence, const struct tt_text *id,
                                  struct tt_http2_message *out_message) {
    struct tt_text *out = &out_message->text;
    size_t length = strlen(sentence), inner = id->length ? field_bytes(id->length) : 0;
    put_prefix(out, field_bytes(length) + (inner ? field_bytes(inner) : 0));
    tt_wire_put_bytes(out, 1, sentence, length);
    if (inner) {
        tt_wire_put_tag(out, 2, TT_WIRE_BYTES);
        tt_wire_put_varint(out, inner);
        tt_wire_put_bytes(out, 3, id->bytes, id->length);
    }
    tt_http2_message_add_text(out_message);
    return !out->failed;
}
