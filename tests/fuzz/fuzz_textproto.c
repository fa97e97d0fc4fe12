/* libFuzzer target: any bytes as config.pbtxt. What reads must survive packing, and printing as
 * JSON. */
/* covers: model/text/textproto.c model/text/textproto_lexer.c model/text/textproto_value.c
 * model/text/protobuf_json.c */
#include "model/text/protobuf_json.h"
#include "model/text/textproto.h"
#include "model_config.pb-c.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tt_error why;
    struct tt_textproto_places places;
    ProtobufCMessage *message = NULL;
    tt_textproto_places_init(&places);
    enum tt_err err =
        tt_textproto_read_places("fuzz", (const char *)data, size,
                                 &inference__model_config__descriptor, &places, &message, &why);
    if (!err) {
        uint8_t *packed = malloc(protobuf_c_message_get_packed_size(message) + 1);
        tt_assert(packed != NULL);
        size_t length = protobuf_c_message_pack(message, packed);
        ProtobufCMessage *again =
            protobuf_c_message_unpack(message->descriptor, NULL, length, packed);
        tt_assert(again != NULL);
        json_t *json = tt_protobuf_json(message);
        tt_assert(json != NULL);
        json_decref(json);
        protobuf_c_message_free_unpacked(again, NULL);
        free(packed);
        protobuf_c_message_free_unpacked(message, NULL);
    }
    tt_textproto_places_fini(&places);
    return 0;
}
