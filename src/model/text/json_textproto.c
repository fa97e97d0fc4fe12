#include "model/text/json_textproto.h"

#include "model/text/json_arena.h"

#include <ctype.h>
#include <string.h>

struct writer {
    struct tt_text *text;
    struct tt_error *why;
};

static enum tt_err write_message(struct writer *writer,
                                 const ProtobufCMessageDescriptor *descriptor, json_t *object);

static char upper_case(char letter) { return (char)toupper((unsigned char)letter); }

/* "maxBatchSize" for "max_batch_size". */
static bool is_camel_case(const char *camel, const char *name) {
    for (; *name; name++, camel++) {
        char wanted = *name;
        if (*name == '_' && name[1]) {
            name++;
            wanted = upper_case(*name);
        }
        if (*camel != wanted)
            return false;
    }
    return !*camel;
}

static const ProtobufCFieldDescriptor *find(const ProtobufCMessageDescriptor *descriptor,
                                            const char *key) {
    for (unsigned i = 0; i < descriptor->n_fields; i++)
        if (strcmp(key, descriptor->fields[i].name) == 0 ||
            is_camel_case(key, descriptor->fields[i].name))
            return &descriptor->fields[i];
    return NULL;
}

static void write_quoted(struct tt_text *text, const char *bytes, size_t length) {
    tt_text_puts(text, "\"");
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\')
            tt_text_printf(text, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            tt_text_printf(text, "\\%03o", c);
        else
            tt_text_append(text, bytes + i, 1);
    }
    tt_text_puts(text, "\"");
}

/* The value of one field, or of one element of a repeated field. */
static enum tt_err write_value(struct writer *writer, const ProtobufCFieldDescriptor *field,
                               json_t *value) {
    struct tt_text *text = writer->text;
    bool is_text = field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return json_is_object(value)
                   ? write_message(writer, field->descriptor, value)
                   : tt_fail(TT_ERR_INVALID, writer->why, "'%s' must be an object", field->name);
    tt_text_puts(text, ": ");
    if (json_is_string(value) && is_text)
        write_quoted(text, json_string_value(value), json_string_length(value));
    else if (json_is_string(value)) /* the name of an enum value, or a number: the reader decides */
        tt_text_append(text, json_string_value(value), json_string_length(value));
    else if (json_is_integer(value))
        tt_text_printf(text, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        tt_text_printf(text, "%.17g", json_real_value(value));
    else if (json_is_boolean(value))
        tt_text_puts(text, json_is_true(value) ? "true" : "false");
    else
        return tt_fail(TT_ERR_INVALID, writer->why, "'%s' must be a single value", field->name);
    tt_text_puts(text, "\n");
    return TT_OK;
}

/* protobuf-c presents a map as repeated messages of `key` and `value`. */
static bool is_map(const ProtobufCFieldDescriptor *field) {
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    return field->label == PROTOBUF_C_LABEL_REPEATED && field->type == PROTOBUF_C_TYPE_MESSAGE &&
           entry->n_fields == 2 && strcmp(entry->fields[0].name, "key") == 0 &&
           strcmp(entry->fields[1].name, "value") == 0;
}

static enum tt_err write_map(struct writer *writer, const ProtobufCFieldDescriptor *field,
                             json_t *object) {
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        tt_text_printf(writer->text, "%s {\nkey: ", field->name);
        if (entry->fields[0].type == PROTOBUF_C_TYPE_STRING)
            write_quoted(writer->text, key, strlen(key));
        else
            tt_text_puts(writer->text, key);
        tt_text_puts(writer->text, "\nvalue");
        enum tt_err err = write_value(writer, &entry->fields[1], value);
        if (err)
            return err;
        tt_text_puts(writer->text, "}\n");
    }
    return TT_OK;
}

static enum tt_err write_field(struct writer *writer, const ProtobufCFieldDescriptor *field,
                               json_t *value) {
    if (is_map(field) && json_is_object(value))
        return write_map(writer, field, value);
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        tt_text_puts(writer->text, field->name);
        return write_value(writer, field, value);
    }
    if (!json_is_array(value))
        return tt_fail(TT_ERR_INVALID, writer->why, "'%s' must be a list", field->name);
    size_t i;
    json_t *item;
    json_array_foreach(value, i, item) {
        tt_text_puts(writer->text, field->name);
        enum tt_err err = write_value(writer, field, item);
        if (err)
            return err;
    }
    return TT_OK;
}

static enum tt_err write_fields(struct writer *writer, const ProtobufCMessageDescriptor *descriptor,
                                json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        const ProtobufCFieldDescriptor *field = find(descriptor, key);
        if (!field)
            return tt_fail(TT_ERR_INVALID, writer->why, "unknown field '%s'", key);
        if (json_is_null(value))
            continue;
        enum tt_err err = write_field(writer, field, value);
        if (err)
            return err;
    }
    return TT_OK;
}

/* Recursion is bounded: it is no deeper than jansson's JSON_PARSER_MAX_DEPTH and than the schema.
 */
static enum tt_err write_message(struct writer *writer,
                                 const ProtobufCMessageDescriptor *descriptor, json_t *object) {
    tt_text_puts(writer->text, " {\n");
    enum tt_err err = write_fields(writer, descriptor, object);
    tt_text_puts(writer->text, "}\n");
    return err;
}

enum tt_err tt_json_textproto(const char *json, size_t length,
                              const ProtobufCMessageDescriptor *descriptor,
                              struct tt_text *out_text, struct tt_error *why) {
    struct tt_json_arena arena;
    json_t *root;
    enum tt_err err = tt_json_arena_open(&arena, json, length, &root, why);
    if (err)
        return err;
    struct writer writer = {.text = out_text, .why = why};
    err = json_is_object(root) ? write_fields(&writer, descriptor, root)
                               : tt_fail(TT_ERR_INVALID, why, "expected an object of fields");
    tt_json_arena_close(&arena, root);
    if (!err && out_text->failed)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    return err;
}
