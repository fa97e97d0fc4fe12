/* tutti top [URL]: what a server does, a line per model, every second, until `q` or Ctrl-C. */
#include "cmd/outcome.h"
#include "cmd/verbs.h"

#include "base/clock.h"
#include "base/instant.h"
#include "client/http_fetch.h"
#include "cmd/arguments.h"
#include "cmd/top_view.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
    "Usage: tutti top [URL] [OPTIONS]\n"
    "\n"
    "Shows what the server at URL (http://127.0.0.1:8000 where absent) does: per model its state,\n"
    "answers and timely answers per second, the share of bad ones, requests inside, rows per "
    "batch,\n"
    "mean waiting, computing and whole times, and since when it started. Keys: q ends, n sorts by\n"
    "name, r by rate.\n"
    "\n"
    "  --metrics-url URL   where /metrics is, if not at URL (Triton: http://127.0.0.1:8002)\n"
    "  --interval S        seconds between two looks (1)\n"
    "  --once              one table after one interval, then the end: for scripts\n"
    "  --json              an object a line instead of tables (docs/FORMATS.md)\n"
    "  --sort KEY          name or rate (name)\n"
    "  --help              this text\n";

#define GIVE_UP_NS (2 * TT_S)

struct top {
    const char *url, *metrics_url;
    double interval_s;
    bool once, json, on_screen;
    enum tt_top_order order;
    struct tt_http_address address, metrics_address;
    struct termios before;
    struct tt_error problem; /* said when the screen is the person's again; "": none */
};

/* --- the terminal --- */

static void screen_on(struct top *top) {
    struct termios raw;
    if (tcgetattr(STDIN_FILENO, &top->before) == 0) {
        raw = top->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    fputs("\033[?1049h\033[?25l", stdout); /* a screen of its own, without a cursor */
}

static void screen_off(struct top *top) {
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &top->before);
}

/* Each line over the old one, the rest of both cleared: nothing flickers. */
static void screen_show(const struct tt_text *text) {
    fputs("\033[H", stdout);
    for (const char *at = tt_text_string(text); *at;) {
        size_t length = strcspn(at, "\n");
        fprintf(stdout, "%.*s\033[K\r\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

/* Waits; a key may change the order. False: it is to end. */
static bool wait_for_key(struct top *top, int64_t until_at) {
    for (;;) {
        int64_t left = until_at - tt_clock_now();
        if (tt_interrupted)
            return false;
        if (left <= 0)
            return true;
        struct pollfd input = {.fd = top->on_screen ? STDIN_FILENO : -1, .events = POLLIN};
        int ready = poll(&input, 1, (int)(left / TT_MS) + 1);
        char key;
        if (ready <= 0)
            continue;
        if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q')
            return false;
        top->order = key == 'r' ? TT_TOP_BY_RATE : key == 'n' ? TT_TOP_BY_NAME : top->order;
    }
}

/* --- looking --- */

static enum tt_err look(struct top *top, struct tt_top_snapshot *out_snapshot,
                        struct tt_error *why) {
    struct tt_text page, index;
    enum tt_err err =
        tt_http_fetch(&top->metrics_address, "/metrics", NULL, GIVE_UP_NS, &page, why);
    if (err)
        return err;
    int64_t at = tt_clock_now();
    tt_text_init(&index); /* a server that only has metrics is watched without states */
    enum tt_err without =
        tt_http_fetch(&top->address, "/v2/repository/index", "{}", GIVE_UP_NS, &index, NULL);
    err = tt_top_snapshot_read(tt_text_string(&page), page.length,
                               without ? NULL : tt_text_string(&index), index.length, at,
                               out_snapshot, why);
    tt_text_fini(&page);
    tt_text_fini(&index);
    return err;
}

static void write_clock(char *out, size_t capacity) {
    time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(out, capacity, "%H:%M:%S", &local);
}

/* `problem`: why there is nothing newer; NULL: there is. */
static void show(const struct top *top, const struct tt_top_snapshot *before,
                 const struct tt_top_snapshot *after, const char *problem) {
    struct tt_top_table table = {.before = before, .after = after, .order = top->order};
    if (top->json) {
        if (problem)
            return;
        json_t *json = tt_top_table_json(&table);
        json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
        putchar('\n');
        fflush(stdout);
        json_decref(json);
        return;
    }
    struct tt_text text;
    struct winsize size;
    char clock[16];
    tt_text_init(&text);
    write_clock(clock, sizeof(clock));
    if (!top->once)
        tt_text_printf(&text, "http://%s  %s  %s\n\n", top->address.authority, clock,
                       problem ? problem : "");
    if (top->on_screen && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 4) {
        table.line_limit = size.ws_row - 3;
        table.column_limit = size.ws_col;
    }
    tt_top_table_write(&table, &text);
    if (top->on_screen)
        screen_show(&text);
    else if (!problem)
        fputs(tt_text_string(&text), stdout);
    fflush(stdout);
    tt_text_fini(&text);
}

/* A server that cannot be reached: while watching, that is what is shown, and it is asked again. */
static void show_gone(const struct top *top, const struct tt_top_snapshot *before,
                      const struct tt_top_snapshot *after, const struct tt_error *why) {
    char text[sizeof(why->text) + 32];
    snprintf(text, sizeof(text), "%s; asking again", why->text);
    if (top->on_screen)
        show(top, before, after, text);
    else
        fprintf(stderr, "tutti top: %s\n", text);
}

static int watch(struct top *top) {
    struct tt_top_snapshot before = {0}, after = {0};
    struct tt_error why;
    int64_t next_at = tt_clock_now();
    bool has = false, has_both = false;
    int code = 0;
    while (!tt_interrupted) {
        struct tt_top_snapshot snapshot;
        enum tt_err err = look(top, &snapshot, &why);
        if (err && (top->once || !has)) {
            top->problem = why;
            code = 1;
            break;
        }
        if (!err) {
            tt_top_snapshot_fini(&before);
            before = after;
            after = snapshot;
            has_both = has;
            has = true;
            if (has_both || top->on_screen)
                show(top, has_both ? &before : &after, &after, NULL);
        } else {
            show_gone(top, has_both ? &before : &after, &after, &why);
        }
        if (top->once && has_both)
            break;
        next_at = tt_instant_max(tt_clock_now(), next_at + (int64_t)(top->interval_s * 1e9));
        if (!wait_for_key(top, next_at))
            break;
    }
    tt_top_snapshot_fini(&before);
    tt_top_snapshot_fini(&after);
    return code;
}

/* --- flags --- */

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct top *top) {
    static const struct option options[] = {
        {"metrics-url", required_argument, NULL, 'm'},
        {"interval", required_argument, NULL, 'i'},
        {"once", no_argument, NULL, 'o'},
        {"json", no_argument, NULL, 'j'},
        {"sort", required_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    opterr = 0;
    optind = 1;
    for (int flag; (flag = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        switch (flag) {
        case 'm': top->metrics_url = optarg; break;
        case 'o': top->once = true; break;
        case 'j': top->json = true; break;
        case 'i':
            if (!tt_arguments_decimal(optarg, 0.01, 86400, &top->interval_s))
                return tt_arguments_refuse(
                    "top", "--interval wants seconds from 0.01 to 86400, not", optarg);
            break;
        case 's':
            if (strcmp(optarg, "name") != 0 && strcmp(optarg, "rate") != 0)
                return tt_arguments_refuse("top", "--sort is name or rate, not", optarg);
            top->order = optarg[0] == 'r' ? TT_TOP_BY_RATE : TT_TOP_BY_NAME;
            break;
        case 'h': fputs(help, stdout); return 0;
        case ':': return tt_arguments_refuse("top", "a value is missing after", argv[optind - 1]);
        default: return tt_arguments_refuse("top", "unknown flag", argv[optind - 1]);
        }
    }
    if (optind < argc)
        top->url = argv[optind++];
    if (optind < argc)
        return tt_arguments_refuse("top", "unexpected argument", argv[optind]);
    return -1;
}

int tt_cmd_top(int argc, char **argv) {
    struct top top = {.url = "http://127.0.0.1:8000", .interval_s = 1};
    int code = parse(argc, argv, &top);
    if (code >= 0)
        return code;
    struct tt_error why;
    enum tt_err err = tt_http_address_parse(top.url, 8000, &top.address, &why);
    top.metrics_address = top.address;
    if (!err && top.metrics_url)
        err = tt_http_address_parse(top.metrics_url, 8002, &top.metrics_address, &why);
    if (err) {
        fprintf(stderr, "tutti top: %s\n", why.text);
        return 2;
    }
    struct sigaction action = {.sa_handler = tt_on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    top.on_screen = !top.once && !top.json && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
    if (top.on_screen)
        screen_on(&top);
    code = watch(&top);
    if (top.on_screen)
        screen_off(&top);
    if (top.problem.text[0])
        fprintf(stderr, "tutti top: %s\n", top.problem.text);
    return tt_interrupted && !top.on_screen && code == 0 ? 130 : code;
}
