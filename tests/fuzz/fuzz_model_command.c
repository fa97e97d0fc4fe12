/* What a client may send to load a model: any bytes as the body of the command, and as the
 * configuration that it brings. What is taken as a configuration is written as text, read, and
 * shown again; the text form of JSON must be one that the reader understands or refuses, never one
 * that breaks it. Build with -fsanitize=fuzzer,address,undefined. */
/* covers: net/kserve/kserve_bodies.c model/text/json_textproto.c model/config/config.c */
#include "unit/net/fake_serving.h"

#include "model/config/config.h"
#include "model/text/json_textproto.h"
#include "net/http/http_routes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_config(const char *json) {
    struct tt_findings findings = {0};
    struct tt_model_config *config = NULL;
    enum tt_err err = tt_model_config_open("fuzz", json, "model", &config, &findings);
    tt_assert(err == TT_OK);
    tt_assert(config != NULL || findings.problem_count > 0);
    if (config) {
        struct tt_text shown;
        tt_text_init(&shown);
        err = tt_model_config_json(config, &shown);
        tt_assert(err == TT_OK);
        tt_text_fini(&shown);
        tt_model_config_free(config);
    }
    tt_findings_fini(&findings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *body = malloc(size + 1);
    memcpy(body, data, size);
    body[size] = '\0';
    read_config(body);
    char *exact = malloc(size ? size : 1); /* a read behind its end is seen */
    memcpy(exact, data, size);
    struct tt_reply reply = {0};
    struct tt_http_request request = {.body = exact, .body_bytes = size};
    struct tt_model_command *command = tt_page_command("model", true, &request, &reply);
    tt_assert((command == NULL) == (reply.status >= 400));
    if (command && command->config_json)
        read_config(command->config_json);
    tt_model_command_free(command);
    tt_text_fini(&reply.body);
    free(exact);
    free(body);
    return 0;
}
