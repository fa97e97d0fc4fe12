/* A message in protobuf's JSON form, written down in its text form, so that one reader
 * (model/text/textproto.h) understands both and finds the same mistakes.
 *
 * Fields go by their names in the schema, or those in lowerCamelCase; maps are objects; null is
 * nothing; numbers may stand in strings. What a value means is left to the reader: only names
 * that the schema does not have, and objects where it has none, are refused here. */
#ifndef TT_MODEL_TEXT_JSON_TEXTPROTO_H
#define TT_MODEL_TEXT_JSON_TEXTPROTO_H

#include "base/err.h"
#include "base/text.h"

#include <protobuf-c/protobuf-c.h>

/* Appends the text form. Errors: INVALID (no JSON, or not this message), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_json_textproto(const char *json, size_t length,
                                            const ProtobufCMessageDescriptor *descriptor,
                                            struct tt_text *out_text, struct tt_error *why);

#endif
