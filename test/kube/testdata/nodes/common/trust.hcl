cluster {
  servers        = [@SERVERS@]
  ca_cert_hashes = ["@HASHES@"]
  token          = credential("bootstrap-token")
  @MORE@
}
