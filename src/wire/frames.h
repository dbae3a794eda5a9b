/*
 * Frames between the api and a kernel, over one SOCK_SEQPACKET socket (descriptor 3 in the kernel).
 *
 * One packet is one frame: header, then payload, at most FRAME_SIZE bytes together. A value longer
 * than that is sent in several frames of the same run and kind, all but the last with FRAME_MORE.
 * Everything from a kernel is hostile: its JSON, its sizes, its order. Frames of an unknown run are
 * dropped until that run's DONE.
 */
#ifndef WIRE_FRAMES_H
#define WIRE_FRAMES_H

#include <stdint.h>

#define FRAME_SIZE 65536 /* whole packet */
#define FRAME_PAYLOAD (FRAME_SIZE - 8)
#define FRAME_VALUES_LIMIT (16 * 1024 * 1024) /* bytes of payload of one cell, all kinds together */
#define FRAME_MORE 1u                         /* flag: the payload goes on in the next frame */

struct frame_header {
	uint32_t run;   /* the run this belongs to; 0: none */
	uint16_t kind;  /* enum frame_kind */
	uint16_t flags; /* FRAME_* */
};

enum frame_kind {
	FRAME_RUN = 1,    /* api -> kernel: the cell's source, UTF-8 */
	FRAME_READY = 16, /* kernel -> api: {"language","version"}; run 0; once, when it can work */
	FRAME_DISPLAY = 17, /* {"data": {mime: string}, "id"?: string} */
	FRAME_RESULT = 18,  /* {"data": {mime: string}}: the value of the last expression */
	FRAME_ERROR = 19,   /* {"name", "message", "traceback"} */
	/* {"exit": int, "restarted"?: text}: the last frame of its run. With the text the
	 * interpreter that the runner drives was replaced, and what cells kept in it is gone; the
	 * text says why. */
	FRAME_DONE = 20,
	FRAME_UPDATE = 21, /* {"data", "id"}: replaces what was displayed under that id */
	FRAME_CLEAR = 22,  /* {"wait": bool}: drops what was displayed so far */
};

#endif
