/* Any protobuf-c message as JSON, in the way that Triton prints its configuration: field names as
 * in the schema, every scalar and every list present even when empty, messages only where set,
 * enums by name, 64-bit integers as numbers, maps as objects. */
#ifndef TT_MODEL_TEXT_PROTOBUF_JSON_H
#define TT_MODEL_TEXT_PROTOBUF_JSON_H

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

/* A new reference; NULL when memory is out. Numbers that JSON has no word for become "NaN",
 * "Infinity", "-Infinity"; bytes become base64; a uint64 above INT64_MAX becomes a string of
 * digits. */
json_t *tt_protobuf_json(const ProtobufCMessage *message);

#endif
