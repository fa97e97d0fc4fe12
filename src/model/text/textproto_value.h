/* Scalar values of the protobuf text format (numbers, booleans, enums, strings), and hints for
 * unknown names. Used by textproto.c only. */
#ifndef TT_MODEL_TEXT_TEXTPROTO_VALUE_H
#define TT_MODEL_TEXT_TEXTPROTO_VALUE_H

#include "model/text/textproto_lexer.h"

#include <protobuf-c/protobuf-c.h>

/* Bytes of one value in a generated struct. */
size_t tt_textproto_value_bytes(ProtobufCType type);
/* Reads one value (never a message) at the current token into `out`, which has the field's C type,
 * and moves past it. Strings and bytes are allocated with malloc. */
enum tt_err tt_textproto_read_scalar(struct tt_textproto_lexer *lexer,
                                     const ProtobufCFieldDescriptor *field, void *out);

/* The valid names, for "did you mean" and "it is one of". Initialise it to zero. */
struct tt_textproto_names {
    const char *names[256];
    size_t count;
    char text[600]; /* "a, b, c", as far as it fits */
    size_t text_bytes;
};
void tt_textproto_names_add(struct tt_textproto_names *self, const char *name);

#endif
