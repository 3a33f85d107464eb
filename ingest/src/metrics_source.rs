//! Metrics of the process as its page shows them: those of the recorder, and those that are read
//! when a page is rendered, as what the kernel knows of the process.

use metrics_exporter_prometheus::PrometheusHandle;

/// Function that appends metrics to a page, in Prometheus' text format. It runs on the thread of
/// health checks, some ten times a second at most, so it must not wait.
pub type Collector = fn(&mut String);

/// Sources of a page of metrics.
#[derive(Clone)]
pub struct MetricsSource {
    recorder: PrometheusHandle,
    collectors: Vec<Collector>,
}

// === impl MetricsSource ===

impl MetricsSource {
    /// Metrics of a recorder and behind them those of `collectors`.
    #[must_use]
    pub fn new(recorder: PrometheusHandle, collectors: Vec<Collector>) -> Self {
        Self {
            recorder,
            collectors,
        }
    }

    /// Page of all metrics.
    pub(crate) fn render(&self) -> String {
        let mut page = self.recorder.render();
        for append in &self.collectors {
            append(&mut page);
        }
        page
    }

    /// Tidies histograms, which keep every sample until then.
    pub(crate) fn run_upkeep(&self) {
        self.recorder.run_upkeep();
    }
}

impl From<PrometheusHandle> for MetricsSource {
    fn from(recorder: PrometheusHandle) -> Self {
        Self::new(recorder, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_exporter_prometheus::PrometheusBuilder;

    fn append_b(page: &mut String) {
        page.push_str("b 2\n");
    }

    fn append_c(page: &mut String) {
        page.push_str("c 3\n");
    }

    #[test]
    fn a_page_ends_with_what_collectors_append() {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || metrics::gauge!("a").set(1.0));
        let source = MetricsSource::new(recorder.handle(), vec![append_b as Collector, append_c]);
        let page = source.render();
        assert!(page.contains("\na 1\n"), "{page}");
        assert!(page.ends_with("b 2\nc 3\n"), "{page}");
    }
}
