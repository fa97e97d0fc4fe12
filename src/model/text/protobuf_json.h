/* Converts any protobuf-c message to JSON, in the way that Triton prints its configuration. Field
 * names are those of the schema. Scalars and lists are present even when empty, messages only where
 * set. Enums are names, 64-bit integers are numbers, maps are objects. */
#ifndef TT_MODEL_TEXT_PROTOBUF_JSON_H
#define TT_MODEL_TEXT_PROTOBUF_JSON_H

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

/* A new reference; NULL: out of memory. Numbers that JSON cannot express become "NaN", "Infinity",
 * "-Infinity". Bytes become base64. A uint64 above INT64_MAX becomes a string of digits. */
json_t *tt_protobuf_json(const ProtobufCMessage *message);

#endif
