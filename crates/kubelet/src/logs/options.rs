//! What of a log is wanted.

use jiff::Timestamp;

use super::line::Stream;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Goes on with what is written from now on, until the container ends.
    pub(crate) follow: bool,
    /// Of the run before this one.
    pub(crate) previous: bool,
    pub(crate) timestamps: bool,
    pub(crate) since: Option<Timestamp>,
    pub(crate) tail_lines: Option<u64>,
    pub(crate) limit_bytes: Option<u64>,
    /// Of one stream alone.
    pub(crate) stream: Option<Stream>,
}

impl Options {
    /// Reads the query of `/containerLogs/…`, as `kubectl` and the API server write it.
    pub(crate) fn parse(pairs: &[(String, String)], now: Timestamp) -> Result<Self, String> {
        let mut options = Options::default();
        for (name, value) in pairs {
            let number = || value.parse::<i64>().map_err(|_| format!("{name} is {value:?}, which is no whole number"));
            let flag = || Ok::<bool, String>(!matches!(value.as_str(), "0" | "false"));
            match name.as_str() {
                "follow" => options.follow = flag()?,
                "previous" => options.previous = flag()?,
                "timestamps" => options.timestamps = flag()?,
                "tailLines" => {
                    let lines = u64::try_from(number()?).map_err(|_| "tailLines must be 0 or more".to_owned())?;
                    options.tail_lines = Some(lines);
                }
                "limitBytes" => {
                    let bytes = u64::try_from(number()?).ok().filter(|bytes| *bytes > 0);
                    options.limit_bytes = Some(bytes.ok_or("limitBytes must be greater than 0")?);
                }
                "sinceSeconds" => {
                    let seconds = Some(number()?).filter(|seconds| *seconds > 0);
                    let seconds = seconds.ok_or("sinceSeconds must be greater than 0")?;
                    let since = now.checked_sub(jiff::SignedDuration::from_secs(seconds));
                    options.since = Some(since.unwrap_or(Timestamp::MIN));
                }
                "sinceTime" => {
                    let time = value.parse().map_err(|_| format!("sinceTime is {value:?}, which is no time"))?;
                    options.since = Some(time);
                }
                "stream" => {
                    options.stream = match value.as_str() {
                        "All" | "" => None,
                        "Stdout" => Some(Stream::Stdout),
                        "Stderr" => Some(Stream::Stderr),
                        other => return Err(format!("stream is {other:?}; it must be All, Stdout or Stderr")),
                    }
                }
                // Others are for other hops.
                _ => {}
            }
        }
        Ok(options)
    }
}
