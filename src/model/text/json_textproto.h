/* Converts a message from protobuf's JSON form to its text form. So one reader
 * (model/text/textproto.h) understands both forms and finds the same mistakes.
 *
 * A field has its name in the schema, or the same in lowerCamelCase. Maps are objects, null is an
 * absent field, and numbers may be strings. The reader checks the values. Only unknown names, and
 * objects where the schema has none, are rejected here. */
#ifndef TT_MODEL_TEXT_JSON_TEXTPROTO_H
#define TT_MODEL_TEXT_JSON_TEXTPROTO_H

#include "base/err.h"
#include "base/text.h"

#include <protobuf-c/protobuf-c.h>

/* Appends the text form. Errors: INVALID (not JSON, or not this message), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_json_textproto(const char *json, size_t length,
                                            const ProtobufCMessageDescriptor *descriptor,
                                            struct tt_text *out_text, struct tt_error *why);

#endif
