/* A reader of protobuf text format into the messages that protobuf-c generates.
 *
 * It reads every file that users write: config.pbtxt, tutti.pbtxt, experiments, profiles. It works
 * from the generated descriptor, so a new schema needs no code. It accepts the whole format:
 * messages in { } or < >, lists in [ ], adjacent strings, # comments, enums by name or number, `;`
 * and `,` between fields, inf and nan. Only extensions and Any are not read.
 *
 * It rejects what is likely a mistake: an unknown field, a field given twice, two members of a
 * oneof, a number out of range. The error message has file, line, column, and what would be right.
 *
 * Life of a message: _read returns it. The caller casts it to its type, and frees it with
 * protobuf_c_message_free_unpacked(message, NULL). Map fields arrive as the repeated entries of
 * protobuf-c; of two entries with one key the last one counts.
 *
 * Later checks find wrong meanings. They keep the table of places (struct tt_textproto_places),
 * which returns the line and column of a field.
 *
 * The reader never prints. It recurses at most TT_TEXTPROTO_MAX_DEPTH messages deep. */
#ifndef TT_MODEL_TEXT_TEXTPROTO_H
#define TT_MODEL_TEXT_TEXTPROTO_H

#include "base/err.h"
#include "base/text.h"

#include <protobuf-c/protobuf-c.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TT_TEXTPROTO_MAX_DEPTH = 64, TT_TEXTPROTO_MAX_FILE_BYTES = 16 << 20 };

/* Line and column count from 1; a column counts bytes. */
struct tt_textproto_place {
    int32_t line, column;
};

/* The place of each field of each message. */
struct tt_textproto_places {
    struct tt_textproto_place_entry *entries;
    int64_t count, capacity;
};

void tt_textproto_places_init(struct tt_textproto_places *self);
void tt_textproto_places_fini(struct tt_textproto_places *self);
/* True if `field` (its name in the schema) was written in `message`. *out_place (may be NULL) gets
 * its place, the first one if repeated. With `field` NULL: the place where the message was opened
 * (the root: 1:1). */
bool tt_textproto_places_find(const struct tt_textproto_places *self, const void *message,
                              const char *field, struct tt_textproto_place *out_place);
/* Returns INVALID, with "path:line: " in front of the text. The line is that of `field` in
 * `message`, or of the message if the field was not written; line 1 if `message` is NULL. */
enum tt_err tt_textproto_places_wrong(const struct tt_textproto_places *self, const char *path,
                                      const void *message, const char *field, struct tt_error *why,
                                      const char *format, va_list args) TT_PRINTF(6, 0);

/* Reads `length` bytes (no NUL needed). `file_name` is used in messages only. Errors: INVALID,
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_textproto_read(const char *file_name, const char *text, size_t length,
                                            const ProtobufCMessageDescriptor *descriptor,
                                            ProtobufCMessage **out_message, struct tt_error *why);
/* Reads a file; `places` as below. Errors: as above, and NOT_FOUND, IO. */
TT_MUST_CHECK enum tt_err tt_textproto_read_file(const char *path,
                                                 const ProtobufCMessageDescriptor *descriptor,
                                                 struct tt_textproto_places *places,
                                                 ProtobufCMessage **out_message,
                                                 struct tt_error *why);
/* As tt_textproto_read, and adds to `places` (initialised; may be NULL). After an error `places`
 * may hold entries of the discarded message. */
TT_MUST_CHECK enum tt_err tt_textproto_read_places(const char *file_name, const char *text,
                                                   size_t length,
                                                   const ProtobufCMessageDescriptor *descriptor,
                                                   struct tt_textproto_places *places,
                                                   ProtobufCMessage **out_message,
                                                   struct tt_error *why);

/* Appends the string in quotes, escaped for the reader. */
void tt_textproto_put_string(struct tt_text *out_text, const char *string);

/* The name most similar to `wrong`, for "did you mean"; NULL: none is similar. */
const char *tt_textproto_nearest(const char *wrong, const char *const *names, size_t count);

#endif
