#include "model/config/config_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TT_PRINTF(5, 0)
static void add_finding(struct tt_config_work *work, enum tt_finding_kind kind, const void *message,
                        const char *field, const char *format, va_list args) {
    struct tt_error sentence;
    vsnprintf(sentence.text, sizeof(sentence.text), format, args);
    const struct tt_model_config *config = work->config;
    struct tt_textproto_place place;
    if (tt_textproto_places_find(&config->places, message, field, &place) ||
        (message != config->message &&
         tt_textproto_places_find(&config->places, message, NULL, &place)))
        tt_findings_add(work->findings, kind, "%s:%d:%d: %s", config->file_name, place.line,
                        place.column, sentence.text);
    else
        tt_findings_add(work->findings, kind, "%s: %s",
                        config->from_file ? config->file_name : work->onnx_path, sentence.text);
}

void tt_config_problem(struct tt_config_work *work, const void *message, const char *field,
                       const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_finding(work, TT_FINDING_PROBLEM, message, field, format, args);
    va_end(args);
}

void tt_config_remark(struct tt_config_work *work, const void *message, const char *field,
                      const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_finding(work, TT_FINDING_REMARK, message, field, format, args);
    va_end(args);
}

void *tt_config_new_message(struct tt_config_work *work,
                            const ProtobufCMessageDescriptor *descriptor) {
    void *message = malloc(descriptor->sizeof_message);
    if (message)
        protobuf_c_message_init(descriptor, message);
    work->no_memory |= !message;
    return message;
}

void tt_config_set_string(struct tt_config_work *work, char **string, const char *value) {
    char *copy = strdup(value);
    if (!copy) {
        work->no_memory = true;
        return;
    }
    if (*string != protobuf_c_empty_string) /* the generated default value is static */
        free(*string);
    *string = copy;
}
