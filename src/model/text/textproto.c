#include "model/text/textproto.h"

#include "base/array.h"
#include "base/regular_file.h"
#include "model/text/textproto_lexer.h"
#include "model/text/textproto_value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tt_textproto_place_entry {
    const void *message;
    const char *field; /* borrowed from the descriptor; NULL: the message itself */
    struct tt_textproto_place place;
};

struct reader {
    struct tt_textproto_lexer lexer;
    struct tt_textproto_places *places; /* may be NULL */
    int32_t depth;
};

void tt_textproto_places_init(struct tt_textproto_places *self) {
    *self = (struct tt_textproto_places){0};
}

void tt_textproto_places_fini(struct tt_textproto_places *self) {
    free(self->entries);
    *self = (struct tt_textproto_places){0};
}

bool tt_textproto_places_find(const struct tt_textproto_places *self, const void *message,
                              const char *field, struct tt_textproto_place *out_place) {
    for (int64_t i = 0; i < self->count; i++) {
        const struct tt_textproto_place_entry *entry = &self->entries[i];
        if (entry->message != message || (entry->field == NULL) != (field == NULL))
            continue;
        if (field && strcmp(entry->field, field) != 0)
            continue;
        if (out_place)
            *out_place = entry->place;
        return true;
    }
    return false;
}

enum tt_err tt_textproto_places_wrong(const struct tt_textproto_places *self, const char *path,
                                      const void *message, const char *field, struct tt_error *why,
                                      const char *format, va_list args) {
    struct tt_textproto_place place = {.line = 1};
    if (message && !(field && tt_textproto_places_find(self, message, field, &place)))
        (void)tt_textproto_places_find(self, message, NULL, &place);
    char text[768];
    vsnprintf(text, sizeof(text), format, args);
    return tt_fail(TT_ERR_INVALID, why, "%s:%d: %s", path, place.line, text);
}

static enum tt_err no_memory(struct reader *self) {
    if (!self->lexer.err)
        self->lexer.err =
            tt_fail(TT_ERR_NO_MEMORY, self->lexer.why, "%s: out of memory", self->lexer.file_name);
    return self->lexer.err;
}

static enum tt_err note_place(struct reader *self, const void *message, const char *field,
                              const struct tt_textproto_token *token) {
    struct tt_textproto_places *places = self->places;
    if (!places)
        return TT_OK;
    if (!TT_ARRAY_RESERVE(places->entries, &places->capacity, places->count + 1))
        return no_memory(self);
    places->entries[places->count++] = (struct tt_textproto_place_entry){
        .message = message,
        .field = field,
        .place = {token->line, token->column},
    };
    return TT_OK;
}

static void *member(ProtobufCMessage *message, unsigned offset) { return (char *)message + offset; }

static enum tt_err read_fields(struct reader *self, ProtobufCMessage *message, char closing);

static enum tt_err message_new(struct reader *self, const ProtobufCMessageDescriptor *descriptor,
                               const struct tt_textproto_token *at, ProtobufCMessage **out) {
    ProtobufCMessage *message = calloc(1, descriptor->sizeof_message);
    if (!message)
        return no_memory(self);
    protobuf_c_message_init(descriptor, message);
    enum tt_err err = note_place(self, message, NULL, at);
    if (err) {
        free(message);
        return err;
    }
    *out = message;
    return TT_OK;
}

/* Reads a message value. `*out` owns it before its fields are read, so that freeing the root frees
 * everything. */
static enum tt_err read_message(struct reader *self, const ProtobufCFieldDescriptor *field,
                                ProtobufCMessage **out) {
    struct tt_textproto_token start = self->lexer.token;
    char closing = 0;
    if (tt_textproto_lexer_is(&self->lexer, '{'))
        closing = '}';
    else if (tt_textproto_lexer_is(&self->lexer, '<'))
        closing = '>';
    char shown[64];
    if (!closing)
        return tt_textproto_lexer_fail(
            &self->lexer, &start, "field '%s' holds a message and wants { ... }, not %s",
            field->name, tt_textproto_token_show(&start, shown, sizeof(shown)));
    if (self->depth >= TT_TEXTPROTO_MAX_DEPTH)
        return tt_textproto_lexer_fail(&self->lexer, &start,
                                       "messages are nested deeper than the limit of %d",
                                       TT_TEXTPROTO_MAX_DEPTH);
    enum tt_err err = message_new(self, field->descriptor, &start, out);
    if (err)
        return err;
    tt_textproto_lexer_next(&self->lexer);
    self->depth++;
    err = read_fields(self, *out, closing);
    self->depth--;
    if (err)
        return err;
    tt_textproto_lexer_next(&self->lexer); /* the closing symbol */
    return TT_OK;
}

static enum tt_err read_value(struct reader *self, const ProtobufCFieldDescriptor *field,
                              void *out) {
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return read_message(self, field, out);
    return tt_textproto_read_scalar(&self->lexer, field, out);
}

/* Appends one element. It is counted (and zero) before its value is read: a message that fails
 * half-way must belong to its parent. */
static enum tt_err append_value(struct reader *self, ProtobufCMessage *message,
                                const ProtobufCFieldDescriptor *field) {
    size_t *count = member(message, field->quantifier_offset);
    void **array = member(message, field->offset);
    size_t size = tt_textproto_value_bytes(field->type);
    if ((*count & (*count - 1)) == 0) { /* a power of two: the array is full */
        void *grown = realloc(*array, (*count ? *count * 2 : 1) * size);
        if (!grown)
            return no_memory(self);
        *array = grown;
    }
    void *slot = (char *)*array + *count * size;
    memset(slot, 0, size);
    if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES ||
        field->type == PROTOBUF_C_TYPE_MESSAGE)
        (*count)++; /* freeing NULL is harmless, losing a half-read message is not */
    enum tt_err err = read_value(self, field, slot);
    if (!err && !(field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES ||
                  field->type == PROTOBUF_C_TYPE_MESSAGE))
        (*count)++;
    return err;
}

static enum tt_err read_repeated(struct reader *self, ProtobufCMessage *message,
                                 const ProtobufCFieldDescriptor *field) {
    if (!tt_textproto_lexer_take(&self->lexer, '['))
        return append_value(self, message, field);
    if (tt_textproto_lexer_take(&self->lexer, ']'))
        return TT_OK;
    for (;;) {
        enum tt_err err = append_value(self, message, field);
        if (err)
            return err;
        if (tt_textproto_lexer_take(&self->lexer, ']'))
            return TT_OK;
        char shown[64];
        if (!tt_textproto_lexer_take(&self->lexer, ','))
            return tt_textproto_lexer_fail(
                &self->lexer, &self->lexer.token,
                "the list of '%s' goes on with , or ends with ], not %s", field->name,
                tt_textproto_token_show(&self->lexer.token, shown, sizeof(shown)));
    }
}

static const char *oneof_member_name(const ProtobufCMessage *message, uint32_t id) {
    const ProtobufCFieldDescriptor *other =
        protobuf_c_message_descriptor_get_field(message->descriptor, id);
    return other ? other->name : "another member";
}

static enum tt_err read_singular(struct reader *self, ProtobufCMessage *message,
                                 const ProtobufCFieldDescriptor *field, bool already_seen,
                                 const struct tt_textproto_token *name) {
    struct tt_textproto_place before = {0};
    if (already_seen) {
        if (self->places)
            tt_textproto_places_find(self->places, message, field->name, &before);
        if (before.line > 0)
            return tt_textproto_lexer_fail(&self->lexer, name,
                                           "field '%s' is given twice; the first is at %d:%d",
                                           field->name, before.line, before.column);
        return tt_textproto_lexer_fail(&self->lexer, name, "field '%s' is given twice",
                                       field->name);
    }
    if (tt_textproto_lexer_is(&self->lexer, '['))
        return tt_textproto_lexer_fail(&self->lexer, &self->lexer.token,
                                       "field '%s' holds one value, not a list", field->name);
    void *value = member(message, field->offset);
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        uint32_t *which = member(message, field->quantifier_offset);
        if (*which != 0)
            return tt_textproto_lexer_fail(&self->lexer, name,
                                           "field '%s' excludes '%s', which is given already",
                                           field->name, oneof_member_name(message, *which));
        memset(value, 0, tt_textproto_value_bytes(field->type));
        *which = field->id;
    } else if (field->label == PROTOBUF_C_LABEL_OPTIONAL && field->type != PROTOBUF_C_TYPE_STRING &&
               field->type != PROTOBUF_C_TYPE_MESSAGE) {
        *(protobuf_c_boolean *)member(message, field->quantifier_offset) = 1;
        memset(value, 0, tt_textproto_value_bytes(field->type));
    }
    return read_value(self, field, value);
}

static enum tt_err unknown_field(struct reader *self, const ProtobufCMessageDescriptor *descriptor,
                                 const struct tt_textproto_token *token) {
    char wrong[128];
    snprintf(wrong, sizeof(wrong), "%.*s", (int)(token->length < 100 ? token->length : 100),
             token->at);
    struct tt_textproto_names names = {0};
    for (unsigned i = 0; i < descriptor->n_fields; i++)
        tt_textproto_names_add(&names, descriptor->fields[i].name);
    const char *nearest = tt_textproto_nearest(wrong, names.names, names.count);
    if (nearest)
        return tt_textproto_lexer_fail(&self->lexer, token,
                                       "%s has no field '%s'; did you mean '%s'?",
                                       descriptor->short_name, wrong, nearest);
    return tt_textproto_lexer_fail(&self->lexer, token, "%s has no field '%s'; it has: %s",
                                   descriptor->short_name, wrong,
                                   names.count ? names.text : "none at all");
}

static enum tt_err read_field(struct reader *self, ProtobufCMessage *message, bool *seen) {
    struct tt_textproto_token name = self->lexer.token;
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    char shown[64], identifier[128];
    if (name.kind != TT_TEXTPROTO_NAME) {
        const char *hint = tt_textproto_lexer_is(&self->lexer, '[')
                               ? " (extensions and Any are not supported)"
                               : "";
        return tt_textproto_lexer_fail(
            &self->lexer, &name, "the name of a field of %s should stand here, not %s%s",
            descriptor->short_name, tt_textproto_token_show(&name, shown, sizeof(shown)), hint);
    }
    const ProtobufCFieldDescriptor *field = NULL;
    if (name.length < sizeof(identifier)) {
        memcpy(identifier, name.at, name.length);
        identifier[name.length] = '\0';
        field = protobuf_c_message_descriptor_get_field_by_name(descriptor, identifier);
    }
    if (!field)
        return unknown_field(self, descriptor, &name);
    tt_textproto_lexer_next(&self->lexer);
    bool colon = tt_textproto_lexer_take(&self->lexer, ':');
    if (!colon && field->type != PROTOBUF_C_TYPE_MESSAGE)
        return tt_textproto_lexer_fail(
            &self->lexer, &self->lexer.token, "field '%s' wants a : before its value, not %s",
            field->name, tt_textproto_token_show(&self->lexer.token, shown, sizeof(shown)));
    enum tt_err err;
    bool *already = &seen[field - descriptor->fields];
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        err = read_repeated(self, message, field);
    else
        err = read_singular(self, message, field, *already, &name);
    if (!err && !*already)
        err = note_place(self, message, field->name, &name);
    *already = true;
    if (!err && !tt_textproto_lexer_take(&self->lexer, ';'))
        tt_textproto_lexer_take(&self->lexer, ',');
    return err ? err : self->lexer.err;
}

/* Reads fields up to `closing`, which stays the current token; 0: up to the end of the file. */
static enum tt_err read_fields(struct reader *self, ProtobufCMessage *message, char closing) {
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    bool *seen = calloc(descriptor->n_fields + 1, sizeof(*seen));
    if (!seen)
        return no_memory(self);
    struct tt_textproto_lexer *lexer = &self->lexer;
    struct tt_textproto_place opened = {lexer->token.line, lexer->token.column};
    enum tt_err err = lexer->err;
    while (!err && lexer->token.kind != TT_TEXTPROTO_END &&
           !(closing && tt_textproto_lexer_is(lexer, closing)))
        err = read_field(self, message, seen);
    if (!err)
        err = lexer->err;
    if (!err && closing && lexer->token.kind == TT_TEXTPROTO_END)
        err = tt_textproto_lexer_fail(lexer, &lexer->token,
                                      "the file ends inside a %s (its fields begin at %d:%d); a %c "
                                      "is missing",
                                      descriptor->short_name, opened.line, opened.column, closing);
    for (unsigned i = 0; !err && i < descriptor->n_fields; i++)
        if (descriptor->fields[i].label == PROTOBUF_C_LABEL_REQUIRED && !seen[i])
            err = tt_textproto_lexer_fail(lexer, &lexer->token, "%s lacks its required field '%s'",
                                          descriptor->short_name, descriptor->fields[i].name);
    free(seen);
    return err;
}

enum tt_err tt_textproto_read_places(const char *file_name, const char *text, size_t length,
                                     const ProtobufCMessageDescriptor *descriptor,
                                     struct tt_textproto_places *places,
                                     ProtobufCMessage **out_message, struct tt_error *why) {
    if (length > TT_TEXTPROTO_MAX_FILE_BYTES)
        return tt_fail(TT_ERR_INVALID, why, "%s: %zu bytes are over the limit of %d", file_name,
                       length, TT_TEXTPROTO_MAX_FILE_BYTES);
    struct reader self = {.places = places};
    tt_textproto_lexer_init(&self.lexer, file_name, text ? text : "", length, why);
    struct tt_textproto_token start = {.at = text, .line = 1, .column = 1};
    ProtobufCMessage *message = NULL;
    enum tt_err err = message_new(&self, descriptor, &start, &message);
    if (err)
        return err;
    err = read_fields(&self, message, 0);
    if (err) {
        protobuf_c_message_free_unpacked(message, NULL);
        return err;
    }
    *out_message = message;
    return TT_OK;
}

enum tt_err tt_textproto_read(const char *file_name, const char *text, size_t length,
                              const ProtobufCMessageDescriptor *descriptor,
                              ProtobufCMessage **out_message, struct tt_error *why) {
    return tt_textproto_read_places(file_name, text, length, descriptor, NULL, out_message, why);
}

enum tt_err tt_textproto_read_file(const char *path, const ProtobufCMessageDescriptor *descriptor,
                                   struct tt_textproto_places *places,
                                   ProtobufCMessage **out_message, struct tt_error *why) {
    struct tt_text text;
    enum tt_err err = tt_regular_file_read(path, TT_TEXTPROTO_MAX_FILE_BYTES, &text, why);
    if (err)
        return err;
    err = tt_textproto_read_places(path, tt_text_string(&text), text.length, descriptor, places,
                                   out_message, why);
    tt_text_fini(&text);
    return err;
}

void tt_textproto_put_string(struct tt_text *out_text, const char *string) {
    tt_text_puts(out_text, "\"");
    for (const unsigned char *c = (const unsigned char *)string; *c; c++)
        if (*c == '"' || *c == '\\' || *c < ' ')
            tt_text_printf(out_text, "\\%03o", *c);
        else
            tt_text_append(out_text, c, 1);
    tt_text_puts(out_text, "\"");
}
