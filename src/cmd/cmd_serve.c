/* tutti serve: a model repository over HTTP until SIGTERM or SIGINT. */
#include "cmd/verbs.h"

#include "base/instant.h"
#include "cmd/arguments.h"
#include "net/listener.h"
#include "rt/loader.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Usage: tutti serve --model-repository DIR [OPTIONS]\n"
    "\n"
    "Serves every model of the repository (Triton's layout) by the Open Inference Protocol (KServe "
    "v2) over HTTP,\n"
    "until SIGTERM or SIGINT; then finishes what was accepted and exits with 0.\n"
    "\n"
    "  --model-repository DIR   the repository (needed)\n"
    "  --http-host HOST         address to listen on (127.0.0.1)\n"
    "  --http-port PORT         port to listen on, 0 for any free one (8000)\n"
    "  --executors N            batches that may run at once, per scheduling domain (number of "
    "processors)\n"
    "  --grace-ms MS            time to finish accepted requests when told to stop (5000)\n"
    "  --onnxruntime FILE       the ONNX Runtime library to load (looked for)\n"
    "  --help                   this text\n";

static struct tt_listener *volatile running;
static int64_t grace_ms = 5000;

static void on_signal(int number) {
    (void)number;
    struct tt_listener *listener = running;
    if (listener)
        tt_listener_stop(listener, grace_ms);
}

static void say(void *context, const char *line) {
    (void)context;
    fprintf(stderr, "tutti: %s\n", line);
}

struct flags {
    struct tt_loader_options loader;
    struct tt_listener_options listener;
};

/* -1: go on; else the exit code. */
static int parse_flags(int argc, char **argv, struct flags *flags) {
    static const struct option options[] = {
        {"model-repository", required_argument, NULL, 'r'},
        {"http-host", required_argument, NULL, 'H'},
        {"http-port", required_argument, NULL, 'p'},
        {"executors", required_argument, NULL, 'e'},
        {"grace-ms", required_argument, NULL, 'g'},
        {"onnxruntime", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    flags->loader = (struct tt_loader_options){
        .executors = processors > 0 ? (int32_t)processors : 1, .say = say};
    tt_listener_options_default(&flags->listener);
    flags->listener.server_version = TUTTI_VERSION;
    opterr = 0;
    optind = 1;
    int flag;
    int64_t number;
    while ((flag = getopt_long(argc, argv, "+:", options, NULL)) != -1) {
        switch (flag) {
        case 'r': flags->loader.repository = optarg; break;
        case 'H': flags->listener.host = optarg; break;
        case 'o': flags->loader.onnxruntime = optarg; break;
        case 'p':
            if (!tt_arguments_number(optarg, 0, 65535, &number))
                return tt_arguments_refuse(
                    "serve", "--http-port wants a number from 0 to 65535, not", optarg);
            flags->listener.port = (int32_t)number;
            break;
        case 'e':
            if (!tt_arguments_number(optarg, 1, 256, &number))
                return tt_arguments_refuse("serve", "--executors wants a number from 1 to 256, not",
                                           optarg);
            flags->loader.executors = (int32_t)number;
            break;
        case 'g':
            if (!tt_arguments_number(optarg, 0, 3600000, &grace_ms))
                return tt_arguments_refuse(
                    "serve", "--grace-ms wants milliseconds from 0 to 3600000, not", optarg);
            break;
        case 'h': fputs(help, stdout); return 0;
        case ':': return tt_arguments_refuse("serve", "a value is missing after", argv[optind - 1]);
        default: return tt_arguments_refuse("serve", "unknown flag", argv[optind - 1]);
        }
    }
    if (optind < argc)
        return tt_arguments_refuse("serve", "unexpected argument", argv[optind]);
    if (!flags->loader.repository)
        return tt_arguments_refuse("serve", "--model-repository DIR is needed", NULL);
    return -1;
}

static void catch_signals(struct tt_listener *listener) {
    running = listener;
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

static int serve(struct tt_loaded *loaded, struct tt_listener_options *options) {
    struct tt_message why;
    struct tt_listener *listener;
    enum tt_err err = tt_listener_open(tt_loader_serving(loaded), options, &listener, &why);
    if (err) {
        fprintf(stderr, "tutti serve: %s\n", why.text);
        return err == TT_ERR_NO_MEMORY ? 1 : 2;
    }
    catch_signals(listener);
    fprintf(stderr, "tutti: serving %d of %d models at http://%s:%d\n",
            tt_loader_ready_count(loaded), tt_loader_model_count(loaded), options->host,
            tt_listener_port(listener));
    fprintf(stderr,
            "tutti: try: curl http://%s:%d/v2/models/mlp/infer -d '{\"inputs\":[{\"name\":"
            "\"input\",\"shape\":[1,16],\"datatype\":\"FP32\",\"data\":[1,0,0,0,0,0,0,0,0,"
            "0,0,0,0,0,0,0]}]}'\n",
            options->host, tt_listener_port(listener));
    tt_listener_run(listener);
    running = NULL;
    tt_listener_close(listener);
    fprintf(stderr, "tutti: stopped\n");
    return 0;
}

int tt_cmd_serve(int argc, char **argv) {
    struct flags flags;
    int code = parse_flags(argc, argv, &flags);
    if (code >= 0)
        return code;
    struct tt_message why;
    struct tt_loaded *loaded;
    enum tt_err err = tt_loader_open(&flags.loader, &loaded, &why);
    if (err) {
        fprintf(stderr, "tutti serve: %s\n", why.text);
        return err == TT_ERR_NOT_FOUND || err == TT_ERR_INVALID || err == TT_ERR_IO ? 2 : 1;
    }
    code = serve(loaded, &flags.listener);
    tt_loader_close(loaded);
    return code;
}
