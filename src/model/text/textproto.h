/* Protobuf text format, read into the messages that protobuf-c generates.
 *
 * One reader for every file that a person writes: config.pbtxt, tutti.pbtxt, experiments, profiles.
 * It works from the generated descriptor, so a new schema needs no code. It takes what the format
 * allows (messages in { } or < >, lists in [ ], strings that join, # comments, enums by name or
 * number, `;` and `,` between fields, inf and nan), and is strict where a person would want to
 * know: an unknown field, a field given twice, two members of a oneof and a number out of range are
 * errors that name file, line and column, and what would be right. Not read: extensions and Any.
 *
 * Life of a message: _read returns it, the caller casts it to its type, and frees it with
 * protobuf_c_message_free_unpacked(message, NULL). Map fields arrive as the repeated entries that
 * protobuf-c makes of them; where a key is given twice, the last one counts.
 *
 * What is wrong with a value's meaning is noticed later, by others: they keep the table of places
 * (struct tt_textproto_places) and ask it for the line and column of a field.
 *
 * The reader never prints, and recurses at most TT_TEXTPROTO_MAX_DEPTH messages deep. */
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

/* Both count from 1; a column counts bytes. */
struct tt_textproto_place {
    int32_t line, column;
};

/* Where each field of each message stood. */
struct tt_textproto_places {
    struct tt_textproto_place_entry *entries;
    size_t count, capacity;
};

void tt_textproto_places_init(struct tt_textproto_places *self);
void tt_textproto_places_fini(struct tt_textproto_places *self);
/* Was `field` (its name in the schema) written in `message`, and where (the first time, if
 * repeated)? `out_place` may be NULL. With `field` NULL: where the message itself was opened (the
 * root: 1:1). */
bool tt_textproto_places_find(const struct tt_textproto_places *self, const void *message,
                              const char *field, struct tt_textproto_place *out_place);
/* INVALID, with "path:line: " before the text, where `field` of `message` stands, or the message
 * where it was not written; line 1 where `message` is NULL. */
enum tt_err tt_textproto_places_wrong(const struct tt_textproto_places *self, const char *path,
                                      const void *message, const char *field, struct tt_error *why,
                                      const char *format, va_list args) TT_PRINTF(6, 0);

/* Reads `length` bytes (no NUL needed). `file_name` is only for messages. Errors: INVALID,
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_textproto_read(const char *file_name, const char *text, size_t length,
                                            const ProtobufCMessageDescriptor *descriptor,
                                            ProtobufCMessage **out_message, struct tt_error *why);
/* The same from a file. Errors: also NOT_FOUND, IO. */
TT_MUST_CHECK enum tt_err tt_textproto_read_file(const char *path,
                                                 const ProtobufCMessageDescriptor *descriptor,
                                                 ProtobufCMessage **out_message,
                                                 struct tt_error *why);
/* The same, noting places. `places` (initialised, may be NULL) is added to, and may hold entries of
 * the discarded message after an error. */
TT_MUST_CHECK enum tt_err tt_textproto_read_places(const char *file_name, const char *text,
                                                   size_t length,
                                                   const ProtobufCMessageDescriptor *descriptor,
                                                   struct tt_textproto_places *places,
                                                   ProtobufCMessage **out_message,
                                                   struct tt_error *why);

/* Appends the string in quotes, as the reader reads it. */
void tt_textproto_put_string(struct tt_text *out_text, const char *string);

/* Of `count` names, the one that `wrong` most looks like, or NULL if none is near. For "did you
 * mean". */
const char *tt_textproto_nearest(const char *wrong, const char *const *names, size_t count);

#endif
