#include "model/text/protobuf_json.h"

#include "base/base64.h"
#include "model/text/textproto_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const void *member(const ProtobufCMessage *message, unsigned offset) {
    return (const char *)message + offset;
}

static json_t *json_number(double value, bool single) {
    if (isnan(value))
        return json_string("NaN");
    if (isinf(value))
        return json_string(value > 0 ? "Infinity" : "-Infinity");
    if (single) { /* 0.1f is shown as 0.1, not as the nearest double */
        char shortest[32];
        for (int digits = 6; digits <= 9; digits++) {
            snprintf(shortest, sizeof(shortest), "%.*g", digits, value);
            if (strtof(shortest, NULL) == (float)value)
                break;
        }
        value = strtod(shortest, NULL);
    }
    return json_real(value);
}

static json_t *json_base64(const ProtobufCBinaryData *data) {
    struct tt_text text;
    tt_text_init(&text);
    tt_base64_put(&text, data->data, data->len);
    json_t *json = text.failed ? NULL : json_stringn(tt_text_string(&text), text.length);
    tt_text_fini(&text);
    return json;
}

static json_t *json_enum(const ProtobufCEnumDescriptor *descriptor, int32_t value) {
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(descriptor, value);
    return known ? json_string(known->name) : json_integer(value);
}

static json_t *json_unsigned(uint64_t value) {
    if (value <= INT64_MAX)
        return json_integer((json_int_t)value);
    char digits[24];
    snprintf(digits, sizeof(digits), "%" PRIu64, value);
    return json_string(digits);
}

static json_t *json_value(const ProtobufCFieldDescriptor *field, const void *value) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32: return json_integer(*(const int32_t *)value);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32: return json_integer(*(const uint32_t *)value);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64: return json_integer(*(const int64_t *)value);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: return json_unsigned(*(const uint64_t *)value);
    case PROTOBUF_C_TYPE_FLOAT: return json_number((double)*(const float *)value, true);
    case PROTOBUF_C_TYPE_DOUBLE: return json_number(*(const double *)value, false);
    case PROTOBUF_C_TYPE_BOOL: return json_boolean(*(const protobuf_c_boolean *)value);
    case PROTOBUF_C_TYPE_ENUM: return json_enum(field->descriptor, *(const int32_t *)value);
    case PROTOBUF_C_TYPE_STRING: {
        const char *string = *(char *const *)value;
        return json_string(string ? string : "");
    }
    case PROTOBUF_C_TYPE_BYTES: return json_base64(value);
    case PROTOBUF_C_TYPE_MESSAGE: return tt_protobuf_json(*(ProtobufCMessage *const *)value);
    }
    return NULL;
}

/* protobuf-c does not mark maps; the compiler's naming rule for entries identifies them. */
static bool is_map(const ProtobufCFieldDescriptor *field) {
    if (field->label != PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE)
        return false;
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    size_t length = strlen(entry->short_name);
    return entry->n_fields == 2 && length > 5 &&
           strcmp(entry->short_name + length - 5, "Entry") == 0 &&
           strcmp(entry->fields[0].name, "key") == 0 && strcmp(entry->fields[1].name, "value") == 0;
}

static int set_entry(json_t *object, const ProtobufCMessage *entry) {
    const ProtobufCFieldDescriptor *fields = entry->descriptor->fields;
    char number[24];
    const char *key = number;
    json_t *json_key = json_value(&fields[0], member(entry, fields[0].offset));
    if (json_is_string(json_key))
        key = json_string_value(json_key);
    else if (json_is_boolean(json_key))
        key = json_is_true(json_key) ? "true" : "false";
    else
        snprintf(number, sizeof(number), "%" PRId64, (int64_t)json_integer_value(json_key));
    const void *value = member(entry, fields[1].offset);
    bool is_absent =
        fields[1].type == PROTOBUF_C_TYPE_MESSAGE && !*(ProtobufCMessage *const *)value;
    json_t *json = is_absent ? json_object() : json_value(&fields[1], value);
    int result = json_key ? json_object_set_new(object, key, json) : -1;
    if (!json_key)
        json_decref(json);
    json_decref(json_key);
    return result;
}

static json_t *json_repeated(const ProtobufCMessage *message,
                             const ProtobufCFieldDescriptor *field) {
    size_t count = *(const size_t *)member(message, field->quantifier_offset);
    const char *values = *(char *const *)member(message, field->offset);
    size_t size = tt_textproto_value_bytes(field->type);
    bool map = is_map(field);
    json_t *json = map ? json_object() : json_array();
    for (size_t i = 0; json && i < count; i++) {
        const void *value = values + i * size;
        int result = map ? set_entry(json, *(ProtobufCMessage *const *)value)
                         : json_array_append_new(json, json_value(field, value));
        if (result != 0) {
            json_decref(json);
            json = NULL;
        }
    }
    return json;
}

static bool is_present(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)member(message, field->quantifier_offset) == field->id;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(ProtobufCMessage *const *)member(message, field->offset) != NULL;
    return true;
}

json_t *tt_protobuf_json(const ProtobufCMessage *message) {
    json_t *json = json_object();
    for (unsigned i = 0; json && i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        json_t *value;
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            value = json_repeated(message, field);
        else if (is_present(message, field))
            value = json_value(field, member(message, field->offset));
        else
            continue;
        if (json_object_set_new(json, field->name, value) != 0) { /* also if value is NULL */
            json_decref(json);
            json = NULL;
        }
    }
    return json;
}
